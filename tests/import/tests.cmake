# What the importer reads against what protobuf reads (Debian's python3-onnx); skipped without it.
# TENURE_NPM_MODELS and TENURE_ONNX_TESTS name further folders of models, when set at configure time
# or in the environment.
add_executable(import_dump import/dump.c)
target_link_libraries(import_dump PRIVATE tenure_static)
find_program(TENURE_PYTHON_ONNX python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(TENURE_PYTHON_ONNX)
  add_test(NAME import.oracle
           COMMAND ${TENURE_PYTHON_ONNX} ${PROJECT_SOURCE_DIR}/tests/import/oracle.py
                   $<TARGET_FILE:import_dump> ${PROJECT_SOURCE_DIR}/../shared/data
                   $ENV{TENURE_NPM_MODELS} $ENV{TENURE_ONNX_TESTS})
  set_tests_properties(import.oracle PROPERTIES SKIP_RETURN_CODE 77)
endif()

# The contents of tensors against the same.
add_executable(import_contents import/contents.c)
target_link_libraries(import_contents PRIVATE tenure_static)
if(TENURE_PYTHON_ONNX)
  add_test(NAME import.contents_oracle
           COMMAND ${TENURE_PYTHON_ONNX} ${PROJECT_SOURCE_DIR}/tests/import/contents.py
                   $<TARGET_FILE:import_contents> ${PROJECT_SOURCE_DIR}/../shared/data
                   /usr/share/libonnx-testdata/data/node $ENV{TENURE_NPM_MODELS})
  set_tests_properties(import.contents_oracle PROPERTIES SKIP_RETURN_CODE 77)
endif()

# Arrays in files against numpy.
add_executable(import_arrays import/arrays.c)
target_link_libraries(import_arrays PRIVATE tenure_static)
if(TENURE_PYTHON_ONNX)
  add_test(NAME import.arrays
           COMMAND ${TENURE_PYTHON_ONNX} ${PROJECT_SOURCE_DIR}/tests/import/arrays.py
                   $<TARGET_FILE:import_arrays>)
  set_tests_properties(import.arrays PROPERTIES SKIP_RETURN_CODE 77)
endif()

# The shape rules against tensors that operators really produced, and against ONNX's own inference.
add_executable(import_shapes import/shapes.c)
target_link_libraries(import_shapes PRIVATE tenure_static)
if(TENURE_PYTHON_ONNX)
  add_test(NAME import.conformance
           COMMAND ${TENURE_PYTHON_ONNX} ${PROJECT_SOURCE_DIR}/tests/import/conformance.py
                   $<TARGET_FILE:import_shapes> /usr/share/libonnx-testdata/data
                   ${PROJECT_SOURCE_DIR}/../shared/data)
  set_tests_properties(import.conformance PROPERTIES SKIP_RETURN_CODE 77)
endif()

# .tflite files against a second reader of them. TENURE_NPM_MODELS: see above.
add_executable(import_sizes import/sizes.c)
target_link_libraries(import_sizes PRIVATE tenure_static)
find_program(TENURE_PYTHON python3)
if(TENURE_PYTHON)
  add_test(NAME import.tflite_reader
           COMMAND ${TENURE_PYTHON} ${PROJECT_SOURCE_DIR}/tests/import/tflite.py
                   $<TARGET_FILE:import_sizes> $<TARGET_FILE:import_contents>
                   ${PROJECT_SOURCE_DIR}/examples/models ${PROJECT_SOURCE_DIR}/fuzz/corpus/tflite
                   ${PROJECT_SOURCE_DIR}/../shared/data/tflite
                   $ENV{TENURE_NPM_MODELS})
  set_tests_properties(import.tflite_reader PROPERTIES SKIP_RETURN_CODE 77)
endif()
