# ONNX's own tests of operators; skipped where libonnx-testdata is not installed.
add_executable(node_tests engine/node_tests.c engine/node_engine.c)
target_include_directories(node_tests PRIVATE engine)
target_link_libraries(node_tests PRIVATE tenure_static)
