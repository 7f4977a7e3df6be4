# ONNX's own tests of operators; skipped where libonnx-testdata is not installed.
add_executable(node_tests engine/node_tests.c engine/node_engine.c)
target_include_directories(node_tests PRIVATE engine)
target_link_libraries(node_tests PRIVATE tenure_static)
add_test(NAME engine.nodes COMMAND node_tests --again --list engine/node_tests.txt
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME engine.nodes_plain COMMAND node_tests --plain --list engine/node_tests.txt
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(engine.nodes engine.nodes_plain PROPERTIES SKIP_RETURN_CODE 77)
