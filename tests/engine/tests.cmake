# ONNX's own tests of operators; skipped where libonnx-testdata is not installed.
add_executable(node_tests engine/node_tests.c engine/node_engine.c)
target_include_directories(node_tests PRIVATE engine)
target_link_libraries(node_tests PRIVATE tenure_static)
set(node_list --list ${CMAKE_CURRENT_SOURCE_DIR}/engine/node_tests.txt)
tenure_test(engine.nodes COMMAND node_tests --again ${node_list})
tenure_test(engine.nodes_plain COMMAND node_tests --plain ${node_list})
tenure_test(engine.nodes_rewrite COMMAND node_tests --rewrite ${node_list})

# Networks against ONNX Runtime, and one against the labels of real images; skipped where
# ../shared/data, python3-onnx, npm's onnxruntime-node or the data set are absent. The larger ones:
# make compare.
find_program(TENURE_DEBIAN_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TENURE_NODE node)
tenure_test(engine.compare_ort ALONE_WITH ort NEEDS TENURE_DEBIAN_PYTHON3 TENURE_NODE
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/compare_ort.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/ort)
tenure_test(engine.fashion NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/fashion.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/fashion)
tenure_test(engine.pruned NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/pruned.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/pruned)
set_target_properties(test_engine_allocation PROPERTIES ENABLE_EXPORTS ON) # its malloc is oneDNN's, too
target_compile_definitions(test_engine_swaps PRIVATE TENURE_STANDIN="$<TARGET_FILE:standin_cudart>")
add_dependencies(test_engine_swaps standin_cudart)

# The operators of 2025 and 2026 against ONNX Runtime's numbers (../shared/data/onnx-2026).
tenure_test(engine.onnx_2026 NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/onnx_2026.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/onnx_2026
                    ${PROJECT_SOURCE_DIR}/../shared/data/onnx-2026)
# Decoders with their caches, step by step, against ONNX Runtime itself.
tenure_test(engine.decoders ALONE_WITH ort NEEDS TENURE_DEBIAN_PYTHON3 TENURE_NODE
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/decoders.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/ort
                    ${PROJECT_SOURCE_DIR}/../shared/data/onnx-2026)
# Forms of contrib operators that the shared data lacks, against ONNX Runtime itself.
tenure_test(engine.contrib_variants ALONE_WITH ort NEEDS TENURE_DEBIAN_PYTHON3 TENURE_NODE
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/contrib_variants.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/ort)
# FlexAttention, and the graphs in its attributes, against numpy.
tenure_test(engine.flex NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/flex.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/flex)
# Random operators with extreme operands and attributes, against ONNX Runtime itself.
tenure_test(engine.extremes ALONE_WITH ort NEEDS TENURE_DEBIAN_PYTHON3 TENURE_NODE
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/extremes.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/ort)
# Products with quantised weights in their stored bits, against numpy.
tenure_test(engine.packed NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/engine/packed.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/packed)
