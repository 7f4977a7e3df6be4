# Dumps and programs with known contents, made and read by code that shares nothing with the library.
if(TARGET tenure_command)
  foreach(name xla xla_order pte pt2 sites kineto dsa)
    tenure_test(foreign.${name} NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/${name}.py $<TARGET_FILE:tenure_command> --count 150)
  endforeach()
  tenure_test(foreign.samples NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/samples.py $<TARGET_FILE:tenure_command>
                      ${PROJECT_SOURCE_DIR}/../shared/data/foreign)
endif()
