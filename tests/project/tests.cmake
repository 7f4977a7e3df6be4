# The project as a whole: headers, symbols, formatting, examples of headers, the design, the presets.
foreach(check docs format headers prose tree)
  tenure_test(project.${check} IN ${PROJECT_SOURCE_DIR} COMMAND ${PROJECT_SOURCE_DIR}/tools/check-${check})
endforeach()
# every link of the documents, by the tool that makes pages of them
find_program(TENURE_MKDOCS mkdocs)
if(NOT TENURE_TEST_PREFIX)
  tenure_test(project.site NEEDS TENURE_MKDOCS IN ${PROJECT_SOURCE_DIR}
              COMMAND ${TENURE_MKDOCS} build --quiet --site-dir ${PROJECT_BINARY_DIR}/site)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  tenure_test(project.symbols IN ${PROJECT_SOURCE_DIR} COMMAND ${PROJECT_SOURCE_DIR}/tools/check-symbols $<TARGET_FILE:libtenure>)
  tenure_test(project.doc-examples IN ${PROJECT_SOURCE_DIR} COMMAND ${PROJECT_SOURCE_DIR}/tools/doc-examples $<TARGET_FILE:tenure_static> -ljansson -lz -lm -lpthread)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TENURE_TEST_ONLY)
  # one file and one header for embedders, and with it the eleven problems of MiniMalloc
  set(amalgamation ${PROJECT_BINARY_DIR}/amalgamation)
  set(minimalloc A B C D E F G H I J K)
  list(TRANSFORM minimalloc REPLACE "(.)" "${PROJECT_SOURCE_DIR}/../shared/data/problems/minimalloc_\\1.csv")
  tenure_test(project.amalgamation IN ${PROJECT_SOURCE_DIR} COMMAND ${PROJECT_SOURCE_DIR}/tools/check-amalgamation ${amalgamation})
  tenure_test(project.minimalloc TIMEOUT 600 COMMAND sh -c "test -e $1 && exec $0 1048576 exact $* || (echo SKIP: no $1 && exit 77)"
              ${amalgamation}/embedded ${minimalloc})
  set_property(TEST project.amalgamation APPEND PROPERTY FIXTURES_SETUP amalgamation)
  set_property(TEST project.minimalloc APPEND PROPERTY FIXTURES_REQUIRED amalgamation)
endif()
if(NOT TENURE_TEST_PREFIX)
  tenure_test(project.release NEEDS TENURE_DEBIAN_PYTHON3 COMMAND ${TENURE_DEBIAN_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/project/release.py ${PROJECT_SOURCE_DIR})
endif()
if(TENURE_PRESET_TESTS)
  tenure_test(project.design IN ${PROJECT_SOURCE_DIR} TIMEOUT 3000 COMMAND ${PROJECT_SOURCE_DIR}/tools/check-design)
  # on a machine that has nothing: one bare root, and each command finds what the one before it left
  set(root ${PROJECT_BINARY_DIR}/fresh-root)
  set(fresh ${PROJECT_SOURCE_DIR}/tools/fresh-root)
  # with the flags of this build, so that what it has compiled need not be compiled once more
  tenure_test(fresh.demo THREADS 2 COMMAND ${fresh} --new ${root} make demo CMAKE_FLAGS=-DTENURE_WERROR=ON)
  tenure_test(fresh.install COMMAND ${fresh} --in ${root} tests/fresh/install.sh)
  tenure_test(fresh.packages THREADS 2 COMMAND ${fresh} --in ${root} tests/fresh/packages.sh)
  tenure_test(fresh.check THREADS 2 COMMAND ${fresh} --in ${root} make check)
  add_test(NAME fresh.end COMMAND ${CMAKE_COMMAND} -E rm -rf ${root})
  set_tests_properties(fresh.packages PROPERTIES DEPENDS fresh.install)
  set_tests_properties(fresh.check PROPERTIES DEPENDS fresh.packages)
  set_property(TEST fresh.demo APPEND PROPERTY FIXTURES_SETUP fresh)
  set_property(TEST fresh.install fresh.packages fresh.check APPEND PROPERTY FIXTURES_REQUIRED fresh)
  set_tests_properties(fresh.end PROPERTIES FIXTURES_CLEANUP fresh)

  # the other builds of the same tests, each in a folder of its own: in the same run, so that no core waits
  set(others ${PROJECT_BINARY_DIR}/presets.cmake)
  file(WRITE ${others} "")
  foreach(preset asan tsan minimal)
    set(folder ${PROJECT_SOURCE_DIR}/build-${preset})
    file(APPEND ${others} "if(EXISTS \"${folder}/CTestTestfile.cmake\")\n  subdirs(\"${folder}\")\nendif()\n")
  endforeach()
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY TEST_INCLUDE_FILES ${others})
endif()

# At the end of every run: what was left out, and whether that was expected.
add_test(NAME project.skips COMMAND ${PROJECT_SOURCE_DIR}/tools/check-skips ${PROJECT_BINARY_DIR})
set_tests_properties(project.skips PROPERTIES FIXTURES_CLEANUP skips)
