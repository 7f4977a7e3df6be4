# Everything at once, against brute force: a short run here, `make stress` for a million problems.
tenure_test_program(stress ${CMAKE_CURRENT_LIST_DIR}/stress.c)
add_test(NAME plan.stress COMMAND stress --seconds 20 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
target_link_libraries(test_plan_scale PRIVATE tenure_generate tenure_static)
