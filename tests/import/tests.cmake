# What the importers read against what others read of the same files. TENURE_NPM_MODELS and TENURE_ONNX_TESTS
# name further folders of models, when set at configure time or in the environment.
set(here ${CMAKE_CURRENT_SOURCE_DIR}/import)
set(shared ${PROJECT_SOURCE_DIR}/../shared/data)
find_program(TENURE_DEBIAN_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TENURE_PYTHON3 python3)
foreach(name dump contents arrays shapes sizes)
  add_executable(import_${name} import/${name}.c)
  target_link_libraries(import_${name} PRIVATE tenure_static)
endforeach()

# ONNX against protobuf (Debian's python3-onnx): the graph, and the contents of tensors.
tenure_test(import.oracle NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/oracle.py $<TARGET_FILE:import_dump> ${shared}
                    $ENV{TENURE_NPM_MODELS} $ENV{TENURE_ONNX_TESTS})
tenure_test(import.contents_oracle NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/contents.py $<TARGET_FILE:import_contents> ${shared}
                    /usr/share/libonnx-testdata/data/node $ENV{TENURE_NPM_MODELS})

# Arrays in files against numpy.
tenure_test(import.arrays NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/arrays.py $<TARGET_FILE:import_arrays>)

# The shape rules against tensors that operators really produced, and against ONNX's own inference.
tenure_test(import.conformance NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/conformance.py $<TARGET_FILE:import_shapes>
                    /usr/share/libonnx-testdata/data ${shared})

tenure_test(import.onnx_2026 NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/onnx_2026.py $<TARGET_FILE:import_shapes>
                    ${shared}/onnx-2026)

# .tflite files against a second reader of them.
tenure_test(import.tflite_reader NEEDS TENURE_PYTHON3
            COMMAND ${TENURE_PYTHON3} ${here}/tflite.py $<TARGET_FILE:import_sizes>
                    $<TARGET_FILE:import_contents> ${PROJECT_SOURCE_DIR}/examples/models
                    ${PROJECT_SOURCE_DIR}/fuzz/corpus/tflite ${shared}/tflite $ENV{TENURE_NPM_MODELS})
