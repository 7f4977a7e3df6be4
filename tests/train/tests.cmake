# Whole networks against PyTorch; skipped where python3-torch is not installed. compare_torch: many
# operators, one step; torch: every optimizer.
add_executable(one_step train/one_step.c)
target_link_libraries(one_step PRIVATE tenure_static)
find_program(TENURE_DEBIAN_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(against ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/train/compare_torch.py $<TARGET_FILE:one_step>)
tenure_test(train.compare_torch NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${against} ${PROJECT_BINARY_DIR}/torch)
tenure_test(train.compare_torch_low NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${against} ${PROJECT_BINARY_DIR}/torch_low --low)
tenure_test(train.curve_torch NEEDS TENURE_DEBIAN_PYTHON3
            COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/train/curve_torch.py
                    $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/curve)
target_sources(test_train_gradients PRIVATE train/gradients_attention.c train/gradients_elements.c train/gradients_move.c
               train/gradients_products.c train/gradients_reduce.c)
