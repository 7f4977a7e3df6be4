# Snapshots whose truth a generator knows, and CPython as the second reader.
find_program(TENURE_PYTHON3 python3)
set(here ${CMAKE_CURRENT_LIST_DIR})
tenure_test_program(pickle_dump ${here}/pickle_dump.c)
tenure_test(snapshot.oracle NEEDS TENURE_PYTHON3
            COMMAND ${TENURE_PYTHON3} ${here}/oracle.py $<TARGET_FILE:pickle_dump>)
if(TARGET tenure_command)
  set(tenure $<TARGET_FILE:tenure_command>)
  tenure_test(snapshot.report COMMAND ${here}/report.sh ${tenure} ${PROJECT_SOURCE_DIR})
  tenure_test(snapshot.cases NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/cases.py ${tenure} ${PROJECT_SOURCE_DIR}/fuzz/corpus/snapshot
                      ${PROJECT_BINARY_DIR}/snapshot_cases)
  # as the package's own interpreter, so that PyTorch is found where it is installed
  tenure_test(snapshot.written NEEDS TENURE_PYTHON3
              COMMAND /usr/bin/python3 ${here}/written.py ${tenure} ${PROJECT_SOURCE_DIR})
  tenure_test(snapshot.generated NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/generated.py ${tenure} --seed 1)
  tenure_test(snapshot.random NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/generated.py ${tenure} --count 10)
  tenure_test(snapshot.megabyte NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/generated.py ${tenure} --bytes 1000000)
  # snapshot.pickle of JasperSolt/EoR_NN, which is not ours to carry
  tenure_test(snapshot.real NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/generated.py ${tenure} --real)
endif()
