# Logs against a plain replay in Python, bad logs, and DTR's published traces where somebody named them.
find_program(TENURE_PYTHON3 python3)
if(TARGET tenure_command)
  set(tenure $<TARGET_FILE:tenure_command>)
  set(here ${CMAKE_CURRENT_LIST_DIR})
  tenure_test(evict.reference NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/compare.py ${tenure} --count 25)
  tenure_test(evict.fit_logs NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/fit_logs.py ${tenure})
  tenure_test(evict.bad_logs NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/bad_logs.py ${tenure})
  tenure_test(evict.sampled NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/sampled.py ${tenure})
  tenure_test(evict.published NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/published.py ${tenure} --logs=$ENV{TENURE_DTR_LOGS}
                      --baseline ${PROJECT_SOURCE_DIR}/../shared/reference/dtr_baseline.md)
endif()
