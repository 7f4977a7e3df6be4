# ESP-IDF includes this file for the whole project, so every component can call tenure_arena() after its
# idf_component_register(): tenure_arena(${COMPONENT_LIB} model.tflite MAX 96KiB). The chip is that of the build, and the
# version of ESP-NN the one that the component manager chose.
include("${CMAKE_CURRENT_LIST_DIR}/tenure-arena.cmake" OPTIONAL RESULT_VARIABLE tenure_arena_file) # a copy, without installation
if(NOT tenure_arena_file)
  find_package(tenure-arena REQUIRED NO_CMAKE_FIND_ROOT_PATH)
endif()
idf_build_get_property(tenure_chip IDF_TARGET)
idf_build_get_property(tenure_project PROJECT_DIR)
set_property(GLOBAL PROPERTY TENURE_ARENA_CHIP ${tenure_chip})
if(CONFIG_NN_ANSI_C)
  set_property(GLOBAL PROPERTY TENURE_ARENA_KERNELS reference) # ESP-NN in plain C requests no scratch
elseif(EXISTS "${tenure_project}/dependencies.lock")
  file(READ "${tenure_project}/dependencies.lock" tenure_lock)
  string(REGEX MATCH "\n  espressif/esp-nn:\r?\n(    [^\n]*\n?)*" tenure_lock "${tenure_lock}")
  if(tenure_lock MATCHES "\n    version: [\"']?([0-9][0-9A-Za-z.~-]*)")
    set_property(GLOBAL PROPERTY TENURE_ARENA_KERNELS esp-nn@${CMAKE_MATCH_1})
    message(STATUS "tenure_arena: ${tenure_chip}, ESP-NN ${CMAKE_MATCH_1}")
  endif()
endif()
