# The library on another processor, in QEMU.
find_program(TENURE_NODE node)
find_program(TENURE_aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc)
find_program(TENURE_qemu-aarch64-static qemu-aarch64-static)
if(NOT TENURE_TEST_PREFIX AND TARGET tenure_command)
  tenure_test(machines.arm64 THREADS 2 NEEDS TENURE_aarch64-linux-gnu-gcc TENURE_qemu-aarch64-static TENURE_NODE IN ${PROJECT_SOURCE_DIR}
              COMMAND ${CMAKE_CURRENT_LIST_DIR}/machine.sh arm64 aarch64 aarch64-linux-gnu ${PROJECT_BINARY_DIR}/machines/arm64
                      $<TARGET_FILE:tenure_command>)
endif()
