# What Python programs use; skipped where python3-torch is not installed.
if(NOT TENURE_TEST_PREFIX)
  tenure_test(python.record NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/python/record.py
                      $<TARGET_FILE:tenure_command> ${PROJECT_SOURCE_DIR})
endif()
