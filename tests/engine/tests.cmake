# ONNX's own tests of operators; skipped where libonnx-testdata is not installed.
add_executable(node_tests engine/node_tests.c engine/node_engine.c)
target_include_directories(node_tests PRIVATE engine)
target_link_libraries(node_tests PRIVATE tenure_static)
add_test(NAME engine.nodes COMMAND node_tests --again --list engine/node_tests.txt
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME engine.nodes_plain COMMAND node_tests --plain --list engine/node_tests.txt
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME engine.nodes_rewrite COMMAND node_tests --rewrite --list engine/node_tests.txt
         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(engine.nodes engine.nodes_plain engine.nodes_rewrite PROPERTIES
                     SKIP_RETURN_CODE 77)

# Networks against ONNX Runtime, and one against the labels of real images; skipped where
# ../shared/data, python3-onnx, npm's onnxruntime-node or the data set are absent. The larger ones:
# make compare.
find_program(TENURE_PYTHON_ONNX python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TENURE_NODE node)
if(TENURE_PYTHON_ONNX AND TENURE_NODE)
  add_test(NAME engine.compare_ort
           COMMAND ${TENURE_PYTHON_ONNX} ${CMAKE_CURRENT_SOURCE_DIR}/engine/compare_ort.py
                   $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/ort)
else()
  add_test(NAME engine.compare_ort COMMAND sh -c "echo 'SKIP: no python3 or no node'; exit 77")
endif()
set_tests_properties(engine.compare_ort PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
if(TENURE_PYTHON_ONNX)
  add_test(NAME engine.fashion
           COMMAND ${TENURE_PYTHON_ONNX} ${CMAKE_CURRENT_SOURCE_DIR}/engine/fashion.py
                   $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/fashion)
  set_tests_properties(engine.fashion PROPERTIES SKIP_RETURN_CODE 77)
endif()
set_target_properties(test_engine_allocation PROPERTIES ENABLE_EXPORTS ON) # its malloc is oneDNN's, too
