# Whole networks against PyTorch; skipped where python3-torch is not installed. compare_torch: many
# operators, one step; torch: every optimizer.
add_executable(one_step train/one_step.c)
target_link_libraries(one_step PRIVATE tenure_static)
find_program(TENURE_PYTHON_TORCH python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(TENURE_PYTHON_TORCH)
  add_test(NAME train.compare_torch
           COMMAND ${TENURE_PYTHON_TORCH} ${CMAKE_CURRENT_SOURCE_DIR}/train/compare_torch.py
                   $<TARGET_FILE:one_step> ${PROJECT_BINARY_DIR}/torch)
  add_test(NAME train.compare_torch_low
           COMMAND ${TENURE_PYTHON_TORCH} ${CMAKE_CURRENT_SOURCE_DIR}/train/compare_torch.py
                   $<TARGET_FILE:one_step> ${PROJECT_BINARY_DIR}/torch_low --low)
  add_test(NAME train.curve_torch
           COMMAND ${TENURE_PYTHON_TORCH} ${CMAKE_CURRENT_SOURCE_DIR}/train/curve_torch.py
                   $<TARGET_FILE:tenure_command> ${PROJECT_BINARY_DIR}/curve)
else()
  add_test(NAME train.curve_torch COMMAND sh -c "echo 'SKIP: no python3'; exit 77")
  add_test(NAME train.compare_torch COMMAND sh -c "echo 'SKIP: no python3'; exit 77")
  add_test(NAME train.compare_torch_low COMMAND sh -c "echo 'SKIP: no python3'; exit 77")
endif()
set_tests_properties(train.compare_torch train.compare_torch_low train.curve_torch PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
target_sources(test_train_gradients PRIVATE train/gradients_elements.c train/gradients_move.c
               train/gradients_products.c train/gradients_reduce.c)
