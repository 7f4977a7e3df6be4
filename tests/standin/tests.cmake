# A stand-in of the CUDA runtime: whole, and as one that lacks a function.
add_library(standin_cudart SHARED ${CMAKE_CURRENT_SOURCE_DIR}/standin/cudart.c)
target_include_directories(standin_cudart PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/standin)
target_link_libraries(standin_cudart PRIVATE tenure_flags)
add_library(standin_lacks MODULE ${CMAKE_CURRENT_SOURCE_DIR}/standin/cudart.c)
target_include_directories(standin_lacks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/standin)
target_compile_definitions(standin_lacks PRIVATE STANDIN_LACKS)
target_link_libraries(standin_lacks PRIVATE tenure_flags)
