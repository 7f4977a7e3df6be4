# The command as a user meets it. Where ../shared/data is absent, some leave parts out and say so.
set(shared ${PROJECT_SOURCE_DIR}/../shared/data)
set(models ${PROJECT_SOURCE_DIR}/examples/models)
find_program(TENURE_PYTHON3 python3)
find_program(TENURE_DEBIAN_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TENURE_NODE node)
find_program(TENURE_MPIRUN mpirun)
if(TARGET tenure_command)
  set(tenure $<TARGET_FILE:tenure_command>)
  set(here ${CMAKE_CURRENT_LIST_DIR})
  tenure_test(cli.all COMMAND ${here}/cli.sh ${tenure} ${PROJECT_SOURCE_DIR})
  tenure_test(cli.mistakes COMMAND ${here}/mistakes.sh ${tenure} ${PROJECT_SOURCE_DIR})
  tenure_test(cli.combine NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/combine.py ${tenure} ${models})
  tenure_test(cli.wrong_plans NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/wrong_plans.py ${tenure} ${PROJECT_SOURCE_DIR})
  tenure_test(cli.node_data NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/node_data.py ${tenure} ${models})
  tenure_test(cli.completion COMMAND ${here}/completion.sh ${tenure})
  tenure_test(cli.estimate COMMAND ${here}/estimate.sh ${tenure} ${PROJECT_SOURCE_DIR})
  tenure_test(cli.models COMMAND ${here}/models.sh ${tenure} ${shared})
  tenure_test(cli.networks COMMAND ${here}/networks.sh ${tenure} ${shared})
  tenure_test(cli.orders COMMAND ${here}/orders.sh ${tenure} ${shared})
  tenure_test(cli.fuse COMMAND ${here}/fuse.sh ${tenure} ${shared})
  tenure_test(cli.fit COMMAND ${here}/fit.sh ${tenure} ${models} ${shared})
  tenure_test(cli.fit_random NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/fit_random.py ${tenure})
  tenure_test(cli.rules COMMAND ${here}/rules.sh ${tenure} ${models})
  tenure_test(cli.embed COMMAND ${here}/embed.sh ${tenure})
  tenure_test(cli.split COMMAND ${here}/split.sh ${tenure} ${models} ${PROJECT_SOURCE_DIR}/bench)
  tenure_test(cli.split_file COMMAND ${here}/split_file.sh ${tenure} ${models} ${shared}/tflite)
  tenure_test(cli.stream COMMAND ${here}/stream.sh ${tenure} ${models})
  tenure_test(cli.experts NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/experts.py ${tenure})
  tenure_test(cli.header COMMAND ${here}/header.sh ${tenure} ${PROJECT_SOURCE_DIR} ${shared}/tflite)
  tenure_test(cli.estimate_runs NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/estimate_runs.py ${tenure} ${models} ${shared})
  tenure_test(cli.weights NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/weights.py ${tenure})
  tenure_test(cli.gguf_caches NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/gguf_caches.py ${tenure})
  if(NOT TENURE_TEST_PREFIX) # one build is enough: the pages show what the release build prints
    tenure_test(cli.pages NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${here}/pages.py ${tenure} ${PROJECT_SOURCE_DIR})
  endif()
  tenure_test(cli.documents NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/documents.py ${tenure} ${models} ${here}/cases)
  tenure_test(cli.planners NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/planners.py ${tenure} ${PROJECT_SOURCE_DIR}/examples/problems ${shared}/problems)
  tenure_test(cli.agree NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/agree.py ${tenure} ${models} ${shared})
  foreach(name planned micro)
    tenure_test(cli.${name} NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${here}/${name}.py ${tenure} ${models}
                        ${PROJECT_SOURCE_DIR}/fuzz/corpus/tflite ${shared}/tflite $ENV{TENURE_NPM_MODELS})
  endforeach()
  if(NOT TENURE_TEST_PREFIX) # Python opens the library, which a sanitizer's runtime must precede
    tenure_test(cli.claims NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${here}/claims.py ${tenure} ${PROJECT_SOURCE_DIR} $<TARGET_FILE:libtenure>)
  endif()
  tenure_test(cli.trace NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/trace.py ${tenure} ${models}/mobilenet_v2.onnx
                      ${models}/five_operators.onnx ${models}/two_branches.onnx)
  tenure_test(cli.tfjs NEEDS TENURE_NODE
              COMMAND ${TENURE_NODE} ${here}/tfjs.mjs ${tenure} ${models} ${shared}/tflite)
  tenure_test(cli.budgets NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/campaign.py budgets ${tenure} ${models} ${PROJECT_SOURCE_DIR}/bench)
  tenure_test(cli.plan_lies NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/plan_lies.py ${tenure} ${PROJECT_SOURCE_DIR}/examples)
  tenure_test(cli.interrupt NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/interrupt.py ${tenure} ${models})
  tenure_test(cli.same_bits NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/campaign.py same_bits ${tenure} ${models} ${PROJECT_SOURCE_DIR}/bench)
  tenure_test(cli.swap_device NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/swap_device.py ${tenure} $<TARGET_FILE:standin_cudart>)
  tenure_test(cli.files_change NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/files_change.py ${tenure})
  tenure_test(cli.gate NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/gate.py ${tenure} ${PROJECT_SOURCE_DIR})
  foreach(part cmake formats)
    tenure_test(cli.firmware_${part} NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${here}/firmware.py ${tenure} ${PROJECT_SOURCE_DIR} ${part})
  endforeach()
  tenure_test(cli.play NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${here}/play.py ${tenure} $<TARGET_FILE:standin_cudart> ${PROJECT_SOURCE_DIR})
  tenure_test(cli.train COMMAND ${here}/train.sh ${tenure} ${shared}/onnx/fashion_resnet.onnx)
  tenure_test(cli.online COMMAND ${here}/online.sh ${tenure})
  tenure_test(cli.train_kill NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/kill.py ${tenure} 10)
  tenure_test(cli.layers NEEDS TENURE_PYTHON3
              COMMAND ${TENURE_PYTHON3} ${PROJECT_SOURCE_DIR}/bench/layers.py ${PROJECT_BINARY_DIR})
  tenure_test(cli.ranks NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/ranks.py ${tenure})
  tenure_test(cli.ranks_mpi THREADS 2 NEEDS TENURE_PYTHON3 TENURE_MPIRUN
              COMMAND ${TENURE_PYTHON3} ${here}/ranks.py ${tenure} ${TENURE_MPIRUN})
  tenure_test(cli.two_nodes THREADS 2 NEEDS TENURE_PYTHON3 TENURE_MPIRUN
              COMMAND ${TENURE_PYTHON3} ${here}/two_nodes.py ${tenure} ${TENURE_MPIRUN})
  tenure_test(cli.faults THREADS 2 NEEDS TENURE_PYTHON3 TENURE_MPIRUN
              COMMAND ${TENURE_PYTHON3} ${here}/faults.py ${tenure} ${TENURE_MPIRUN})
  tenure_test(cli.cluster THREADS 2 NEEDS TENURE_PYTHON3 TENURE_MPIRUN
              COMMAND ${TENURE_PYTHON3} ${here}/cluster.py ${tenure} ${TENURE_MPIRUN} ${PROJECT_SOURCE_DIR})
  tenure_test(cli.shard NEEDS TENURE_PYTHON3 COMMAND ${TENURE_PYTHON3} ${here}/shard.py ${tenure})
  tenure_test(cli.shard_mpi THREADS 2 NEEDS TENURE_PYTHON3 TENURE_MPIRUN
              COMMAND ${TENURE_PYTHON3} ${here}/shard.py ${tenure} ${TENURE_MPIRUN})
  # Preloaded libraries: not under sanitizers, which have a malloc of their own, nor without glibc's.
  if(NOT TENURE_TEST_PREFIX)
    foreach(name failing slow_files)
      add_library(cli_${name} SHARED ${here}/${name}.c)
      target_link_libraries(cli_${name} PRIVATE ${CMAKE_DL_LIBS})
      add_dependencies(tenure_tests cli_${name})
    endforeach()
    tenure_test(cli.hardened COMMAND ${here}/hardened.sh ${tenure} $<TARGET_FILE:libtenure> $<TARGET_FILE:tenure_preload>)
    tenure_test(cli.hostile TIMEOUT 300 NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${here}/hostile.py ${tenure} $<TARGET_FILE:cli_slow_files> ${PROJECT_SOURCE_DIR})
    tenure_test(cli.no_memory TIMEOUT 400 NEEDS TENURE_PYTHON3
                COMMAND ${TENURE_PYTHON3} ${here}/no_memory.py ${tenure} $<TARGET_FILE:cli_failing> ${PROJECT_SOURCE_DIR})
  endif()
  tenure_test(cli.train_own_loss NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/train_own_loss.py ${tenure} ${CMAKE_CURRENT_BINARY_DIR}/own_loss)
  tenure_test(cli.train_pruned NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/train_pruned.py ${tenure} ${CMAKE_CURRENT_BINARY_DIR}/pruned_run)
  tenure_test(cli.train_saved NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${here}/train_saved.py ${tenure} ${CMAKE_CURRENT_BINARY_DIR}/saved_model)
  tenure_test(cli.train_bad COMMAND ${here}/train_bad.sh ${tenure})
endif()
