# The allocator for PyTorch on a stand-in of the CUDA runtime: its parts, and the library as PyTorch loads it.
foreach(program test_torch_stream_fences test_torch_granules test_torch_ground test_torch_library test_torch_crowd)
  target_link_libraries(${program} PRIVATE tenure_torch_parts standin_cudart)
  target_compile_definitions(${program} PRIVATE TENURE_STANDIN="$<TARGET_FILE:standin_cudart>"
                             TENURE_TORCH="$<TARGET_FILE:tenure_torch>")
endforeach()
foreach(program test_torch_library test_torch_crowd)
  add_dependencies(${program} tenure_torch)
endforeach()
tenure_test(torch.library_granules COMMAND test_torch_library granules)
tenure_test(torch.crowd_granules COMMAND test_torch_crowd granules)
if(NOT TENURE_TEST_PREFIX) # python3 does not load what sanitizers made
  tenure_test(torch.processes NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${TENURE_DEBIAN_PYTHON3}
              ${CMAKE_CURRENT_SOURCE_DIR}/torch/library.py $<TARGET_FILE:tenure_torch> $<TARGET_FILE:standin_cudart>
              $<TARGET_FILE:tenure_command> $<TARGET_FILE:bench_torch_play>)
  tenure_test(torch.example NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${TENURE_DEBIAN_PYTHON3}
              ${CMAKE_CURRENT_SOURCE_DIR}/torch/stub.py $<TARGET_FILE:tenure_torch> $<TARGET_FILE:standin_cudart>
              ${PROJECT_SOURCE_DIR}/examples/pytorch/cuda.py)
  foreach(target tenure_tests tenure_gate)
    add_dependencies(${target} bench_torch_play tenure_torch)
  endforeach()
endif()
