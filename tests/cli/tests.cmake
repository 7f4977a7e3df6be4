if(TARGET tenure_command)
  add_test(NAME cli.all COMMAND ${CMAKE_CURRENT_LIST_DIR}/cli.sh $<TARGET_FILE:tenure_command> ${PROJECT_SOURCE_DIR})
  add_test(NAME cli.estimate COMMAND ${CMAKE_CURRENT_LIST_DIR}/estimate.sh $<TARGET_FILE:tenure_command> ${PROJECT_SOURCE_DIR})
  add_test(NAME cli.models COMMAND ${CMAKE_CURRENT_LIST_DIR}/models.sh $<TARGET_FILE:tenure_command>
           ${PROJECT_SOURCE_DIR}/../shared/data)
  add_test(NAME cli.orders COMMAND ${CMAKE_CURRENT_LIST_DIR}/orders.sh $<TARGET_FILE:tenure_command>
           ${PROJECT_SOURCE_DIR}/../shared/data)
  add_test(NAME cli.fuse COMMAND ${CMAKE_CURRENT_LIST_DIR}/fuse.sh $<TARGET_FILE:tenure_command>
           ${PROJECT_SOURCE_DIR}/../shared/data)
  set_tests_properties(cli.models cli.orders cli.fuse PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME cli.header COMMAND ${CMAKE_CURRENT_LIST_DIR}/header.sh $<TARGET_FILE:tenure_command>
           ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/../shared/data/tflite)
  find_program(TENURE_PYTHON python3)
  if(TENURE_PYTHON)
    add_test(NAME cli.estimate_runs
             COMMAND ${TENURE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/estimate_runs.py $<TARGET_FILE:tenure_command>
                     ${PROJECT_SOURCE_DIR}/examples/models ${PROJECT_SOURCE_DIR}/../shared/data)
    add_test(NAME cli.planned
             COMMAND ${TENURE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/planned.py $<TARGET_FILE:tenure_command>
                     ${PROJECT_SOURCE_DIR}/examples/models ${PROJECT_SOURCE_DIR}/fuzz/corpus/tflite
                     ${PROJECT_SOURCE_DIR}/../shared/data/tflite $ENV{TENURE_NPM_MODELS})
    add_test(NAME cli.micro
             COMMAND ${TENURE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/micro.py $<TARGET_FILE:tenure_command>
                     ${PROJECT_SOURCE_DIR}/examples/models ${PROJECT_SOURCE_DIR}/fuzz/corpus/tflite
                     ${PROJECT_SOURCE_DIR}/../shared/data/tflite $ENV{TENURE_NPM_MODELS})
    add_test(NAME cli.trace
             COMMAND ${TENURE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/trace.py $<TARGET_FILE:tenure_command>
                     ${PROJECT_SOURCE_DIR}/examples/models/mobilenet_v2.onnx
                     ${PROJECT_SOURCE_DIR}/examples/models/five_operators.onnx
                     ${PROJECT_SOURCE_DIR}/examples/models/two_branches.onnx)
    set_tests_properties(cli.planned cli.micro PROPERTIES SKIP_RETURN_CODE 77)
  endif()
  find_program(TENURE_NODE node)
  if(TENURE_NODE)
    add_test(NAME cli.tfjs
             COMMAND ${TENURE_NODE} ${CMAKE_CURRENT_LIST_DIR}/tfjs.mjs $<TARGET_FILE:tenure_command>
                     "$ENV{TENURE_TFJS_TFLITE}" ${PROJECT_SOURCE_DIR}/examples/models
                     ${PROJECT_SOURCE_DIR}/../shared/data/tflite)
    set_tests_properties(cli.tfjs PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endif()
# training; a part is left out where ../shared/data is absent
add_test(NAME cli.train COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/train.sh $<TARGET_FILE:tenure_command>
         ${PROJECT_SOURCE_DIR}/../shared/data/onnx/fashion_resnet.onnx)
add_test(NAME cli.train_kill COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/kill.py $<TARGET_FILE:tenure_command> 10)
if(NOT TENURE_MINIMAL)
  add_test(NAME cli.train_bad COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/train_bad.sh $<TARGET_FILE:tenure_command>)
endif()
