# Models in parts in ONNX Runtime; skipped where python3-onnx or npm's onnxruntime-node is absent.
find_program(TENURE_DEBIAN_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TENURE_NODE node)
tenure_test(export.ort ALONE_WITH ort NEEDS TENURE_DEBIAN_PYTHON3 TENURE_NODE
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/export/ort.py $<TARGET_FILE:tenure_command>
                    ${PROJECT_BINARY_DIR}/ort ${PROJECT_SOURCE_DIR}/../shared/data/onnx/mnist8.onnx)
