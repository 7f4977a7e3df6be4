# The Python package, and what it does for programs of PyTorch; skipped where python3-torch is not installed.
if(NOT TENURE_TEST_PREFIX)
  set(python_tests ${CMAKE_CURRENT_SOURCE_DIR}/python)
  tenure_test(python.api NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/api.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.lists NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/api.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure> lists)
  tenure_test(python.layouts NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/layouts.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>
                      ${CMAKE_C_COMPILER})
  tenure_test(python.eager NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/eager.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.executorch NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/executorch.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>
                      ${PROJECT_SOURCE_DIR}/../shared/data/foreign/pte)
  tenure_test(python.tvm_usmp NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/tvm_usmp.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.install NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/install.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.wheel NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${PROJECT_SOURCE_DIR}/tools/make-wheel ${PROJECT_BINARY_DIR}/wheel)
  tenure_test(python.notebook NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/notebook.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.train NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/train.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>
                      $<TARGET_FILE:tenure_command> ${CMAKE_CURRENT_BINARY_DIR}/python_train)
  find_program(TENURE_MYPY mypy)
  tenure_test(python.types NEEDS TENURE_MYPY IN ${PROJECT_SOURCE_DIR}/bindings/python
              COMMAND ${TENURE_MYPY} --cache-dir ${PROJECT_BINARY_DIR}/mypy)
  tenure_test(python.record NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/record.py $<TARGET_FILE:tenure_command> ${PROJECT_SOURCE_DIR})
  tenure_test(python.torch_estimate NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/torch_estimate.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.accuracy NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${PROJECT_SOURCE_DIR}/bench/accuracy/accuracy.py $<TARGET_FILE:libtenure> --quick)
  tenure_test(python.watch NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/watch.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>
                      $<TARGET_FILE:tenure_command>)
  tenure_test(python.torch_watch NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/torch_watch.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.torch_fit NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/torch_fit.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.torch_away NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/torch_away.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  tenure_test(python.example NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${python_tests}/example.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
endif()
