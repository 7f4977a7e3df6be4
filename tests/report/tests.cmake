# The page in a real browser; skipped where node, npm, the network or Chromium are absent.
add_executable(make_pages report/make_pages.c)
target_link_libraries(make_pages PRIVATE tenure_static)
find_program(TENURE_NODE node)
set(page_models ${PROJECT_SOURCE_DIR}/examples/models/mobilenet_v2.onnx ${PROJECT_SOURCE_DIR}/examples/models/unet64.onnx)
if(TENURE_TEST_PREFIX) # a sanitizer watches the pages being written; the browser runs none of our code
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/page-test)
  tenure_test(report.page COMMAND $<TARGET_FILE:make_pages> ${PROJECT_BINARY_DIR}/page-test ${page_models})
else()
  tenure_test(report.page NEEDS TENURE_NODE
              COMMAND ${TENURE_NODE} ${CMAKE_CURRENT_SOURCE_DIR}/report/page.test.mjs
                      $<TARGET_FILE:make_pages> ${PROJECT_BINARY_DIR}/page-test ${page_models})
endif()
