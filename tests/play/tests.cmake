# Traces played on devices: CUDA's runtime is the stand-in, OpenCL what is installed (Debian: pocl).
target_link_libraries(test_play_play PRIVATE standin_cudart)
target_compile_definitions(test_play_play PRIVATE TENURE_STANDIN="$<TARGET_FILE:standin_cudart>")
