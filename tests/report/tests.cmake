# The page in a real browser. 77: skipped, as there is no node, npm, network or Chromium.
add_executable(make_pages report/make_pages.c)
target_link_libraries(make_pages PRIVATE tenure_static)
find_program(TENURE_NODE node)
if(TENURE_NODE)
  add_test(NAME report.page
           COMMAND ${TENURE_NODE} ${CMAKE_CURRENT_SOURCE_DIR}/report/page.test.mjs
                   $<TARGET_FILE:make_pages> ${PROJECT_BINARY_DIR}/page-test
                   ${PROJECT_SOURCE_DIR}/examples/models/mobilenet_v2.onnx)
else()
  add_test(NAME report.page COMMAND sh -c "echo 'SKIP: no node'; exit 77")
endif()
set_tests_properties(report.page PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
