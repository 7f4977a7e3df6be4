# Devices that load a library: CUDA's runtime is a stand-in of our own, OpenCL is what is installed (Debian: pocl).
target_compile_definitions(test_device_drivers PRIVATE TENURE_STANDIN="$<TARGET_FILE:standin_cudart>")
add_dependencies(test_device_drivers standin_cudart)
target_link_libraries(test_device_cuda PRIVATE standin_cudart)
target_compile_definitions(test_device_cuda PRIVATE TENURE_STANDIN="$<TARGET_FILE:standin_cudart>"
                           TENURE_STANDIN_LACKS="$<TARGET_FILE:standin_lacks>")
add_dependencies(test_device_cuda standin_lacks)
