# The project as a whole: headers, symbols, formatting, examples of headers, the design, the presets.
set(project_checks headers format docs)
foreach(check IN LISTS project_checks)
  add_test(NAME project.${check} COMMAND ${PROJECT_SOURCE_DIR}/tools/check-${check}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(project.${check} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_test(NAME project.symbols COMMAND ${PROJECT_SOURCE_DIR}/tools/check-symbols $<TARGET_FILE:libtenure>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME project.doc-examples
           COMMAND ${PROJECT_SOURCE_DIR}/tools/doc-examples $<TARGET_FILE:tenure_static> -ljansson -lm -lpthread
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()
if(TENURE_PRESET_TESTS)
  add_test(NAME project.design COMMAND ${PROJECT_SOURCE_DIR}/tools/check-design
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  # the other builds of the same tests, each in a folder of its own
  add_test(NAME preset.asan COMMAND ${PROJECT_SOURCE_DIR}/tools/test-preset asan
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME preset.tsan COMMAND ${PROJECT_SOURCE_DIR}/tools/test-preset tsan -R "^(plan\\.(planners|threads)|pool|device|program.trace)"
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME preset.minimal COMMAND ${PROJECT_SOURCE_DIR}/tools/test-preset minimal
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(preset.asan preset.tsan preset.minimal project.design PROPERTIES TIMEOUT 3000)
endif()
