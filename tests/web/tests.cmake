# The command in WebAssembly: web/build makes the page and the npm package, once for all tests of this room.
find_program(TENURE_EMCC emcc)
find_program(TENURE_NODE node)
if(NOT TENURE_TEST_PREFIX AND TARGET tenure_command)
  set(here ${CMAKE_CURRENT_LIST_DIR})
  set(web ${PROJECT_BINARY_DIR}/web)
  tenure_test(web.build THREADS 2 NEEDS TENURE_EMCC TENURE_NODE IN ${PROJECT_SOURCE_DIR} COMMAND ${here}/build.sh ${web})
  tenure_test(web.command NEEDS TENURE_EMCC TENURE_NODE
              COMMAND ${TENURE_NODE} ${here}/command.test.mjs $<TARGET_FILE:tenure_command> ${web} ${PROJECT_SOURCE_DIR})
  tenure_test(web.page NEEDS TENURE_EMCC TENURE_NODE
              COMMAND ${TENURE_NODE} ${here}/page.test.mjs $<TARGET_FILE:tenure_command> ${web} ${PROJECT_SOURCE_DIR})
  set_tests_properties(web.command web.page PROPERTIES DEPENDS web.build)
endif()
