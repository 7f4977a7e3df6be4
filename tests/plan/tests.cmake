# Everything at once, against brute force: a short run here, `make stress` for a million problems.
tenure_test_program(stress ${CMAKE_CURRENT_LIST_DIR}/stress.c)
tenure_test(plan.stress IN ${PROJECT_SOURCE_DIR} COMMAND stress --seconds 20)
target_link_libraries(test_plan_scale PRIVATE tenure_generate tenure_static)
target_link_libraries(test_plan_floor PRIVATE tenure_generate tenure_static)
