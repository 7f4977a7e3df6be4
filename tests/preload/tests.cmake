# The library for LD_PRELOAD, under programs that know nothing of it. Sanitizers replace malloc themselves.
if(TARGET tenure_preload AND NOT TENURE_TEST_PREFIX)
  set(preload_tests ${CMAKE_CURRENT_SOURCE_DIR}/preload)
  add_executable(preload_family ${preload_tests}/family.c)
  add_executable(preload_crowd ${preload_tests}/crowd.c)
  foreach(name family crowd)
    target_compile_options(preload_${name} PRIVATE -fno-builtin) # what is asked for, is asked for
    target_link_libraries(preload_${name} PRIVATE Threads::Threads)
    add_dependencies(tenure_tests preload_${name} tenure_preload)
  endforeach()
  set(preload_run ${TENURE_DEBIAN_PYTHON3} ${preload_tests}/preload.py $<TARGET_FILE:tenure_preload>
                  $<TARGET_FILE:tenure_command> $<TARGET_FILE:preload_family> ${PROJECT_SOURCE_DIR})
  tenure_test(preload.programs NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${preload_run})
  tenure_test(preload.watch NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${preload_tests}/watch.py $<TARGET_FILE:tenure_preload>
                      $<TARGET_FILE:tenure_torch> $<TARGET_FILE:standin_cudart> $<TARGET_FILE:tenure_command>
                      $<TARGET_FILE:preload_family>)
  tenure_test(preload.crowd THREADS 2 NEEDS TENURE_DEBIAN_PYTHON3
              COMMAND ${TENURE_DEBIAN_PYTHON3} ${preload_tests}/crowd.py $<TARGET_FILE:tenure_preload>
                      $<TARGET_FILE:preload_crowd> ${PROJECT_SOURCE_DIR})
  tenure_test(preload.torch NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${preload_run} torch)
endif()
