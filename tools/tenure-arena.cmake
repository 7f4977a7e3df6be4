# tenure_arena: the build of a firmware computes the tensor arena of a model for TensorFlow Lite Micro. The build fails with
# the tensors that hold the memory if the arena does not fit; otherwise it writes a C header with the size.
#
#     find_package(tenure-arena REQUIRED)      # or include() a copy of this file
#     tenure_arena(<target> <model.tflite> [HEADER <file.h>] [MAX <size>] [PLANNED <file.tflite>]
#                  [CHIP <name>] [KERNELS <library>])
#
#   HEADER   header to write (default: <model>_arena.h); the target can include it by its name
#   MAX      most bytes of the arena, such as 96KiB or 98304 (default: no limit)
#   PLANNED  also write the model with a memory plan inside; size and limit are then those of this file, and the header
#            has the offset of each tensor. Without it, size and limit are those of the model as it is.
#   CHIP     processor, a name of `tenure arena --target` (default: the global property TENURE_ARENA_CHIP, then cortex-m4)
#   KERNELS  kernel library, as in `tenure arena --kernels` (default: the property TENURE_ARENA_KERNELS, then the
#            largest of those that run on the processor)
#
# Relative files are in the source folder (the model) and in the binary folder (the other files). The program `tenure` is
# searched on the PATH; the variable TENURE_PROGRAM names another one. Without the program, a header in the source folder
# is used with a warning, so that a project can be built without Tenure. Needs CMake 3.19 or later.
#
# The file runs in two modes: included, it defines the function; as a script (cmake -P) it is the step of the build.

# Writes the header, as files that appear only if the arena fits: a later build does not take those of a failed one.
function(tenure_arena_step)
  set(options --target ${CHIP})
  if(KERNELS)
    list(APPEND options --kernels ${KERNELS})
  endif()
  set(made "${HEADER}.tmp.h")
  set(outputs -o "${made}")
  set(limit)
  if(MAX)
    set(limit --max ${MAX})
  endif()
  if(PLANNED)
    list(APPEND outputs -o "${PLANNED}.tmp.tflite")
    execute_process(COMMAND "${TENURE}" arena "${MODEL}" ${options} ${limit} ${outputs}
                    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  else()
    execute_process(COMMAND "${TENURE}" arena "${MODEL}" ${options} ${outputs} --json
                    RESULT_VARIABLE status OUTPUT_VARIABLE answer ERROR_VARIABLE errors)
    if(status STREQUAL "0" AND MAX)
      execute_process(COMMAND "${TENURE}" arena "${MODEL}" ${options} ${limit}
                      RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE errors)
    endif()
  endif()
  if(status STREQUAL "0")
    if(NOT PLANNED)
      tenure_arena_size("${made}" "${answer}")
    else()
      execute_process(COMMAND "${CMAKE_COMMAND}" -E rename "${PLANNED}.tmp.tflite" "${PLANNED}")
    endif()
    execute_process(COMMAND "${CMAKE_COMMAND}" -E rename "${made}" "${HEADER}")
    return()
  endif()
  file(REMOVE "${made}" "${HEADER}")
  if(PLANNED)
    file(REMOVE "${PLANNED}.tmp.tflite" "${PLANNED}")
  endif()
  get_filename_component(name "${MODEL}" NAME)
  if(status STREQUAL "1")
    if(NOT PLANNED)
      string(REPLACE "; -o planned.tflite writes that file" "; PLANNED of tenure_arena() writes that file" text "${text}")
    endif()
    message(NOTICE "${text}\nerror: ${name}: the arena does not fit in ${MAX}")
    message(FATAL_ERROR "the build stops: the arena of ${name} is too large")
  endif()
  string(STRIP "${errors}" errors)
  message(NOTICE "${errors}")
  message(FATAL_ERROR "the build stops: the arena of ${name} is not known, because `tenure arena` ended with status ${status}")
endfunction()

# The header for the model as it is: the size without offsets, because the runtime makes the plan.
function(tenure_arena_size file answer)
  string(JSON size GET "${answer}" total_as_it_is most)
  file(STRINGS "${file}" line REGEX "^#define [A-Z0-9_]+_ARENA_SIZE " LIMIT_COUNT 1)
  string(REGEX REPLACE "^#define ([A-Z0-9_]+)_ARENA_SIZE .*" "\\1" upper "${line}")
  string(TOLOWER "${upper}" lower)
  file(WRITE "${file}" "/* ${lower}: the tensor arena of TensorFlow Lite Micro. Written by Tenure; do not edit.
 *
 * Include it anywhere; define ${upper}_DEFINE in one file before, to get the memory itself.
 */
#ifndef ${upper}_ARENA_H
#define ${upper}_ARENA_H

#include <stdint.h>

#define ${upper}_ARENA_SIZE ${size}u /* bytes */
#define ${upper}_ARENA_ALIGNMENT 16u
#ifndef ${upper}_ARENA_SECTION
#define ${upper}_ARENA_SECTION \".bss.arena\" /* for the linker script */
#endif

#ifdef __cplusplus
extern \"C\" {
#endif
extern uint8_t ${lower}_arena[${upper}_ARENA_SIZE];
#ifdef ${upper}_DEFINE
uint8_t ${lower}_arena[${upper}_ARENA_SIZE]
    __attribute__((section(${upper}_ARENA_SECTION), aligned(${upper}_ARENA_ALIGNMENT)));
#endif
#ifdef __cplusplus
}
#endif

#endif
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  tenure_arena_step()
  return()
endif()

function(tenure_arena target model)
  cmake_parse_arguments(PARSE_ARGV 2 arena "" "HEADER;MAX;PLANNED;CHIP;KERNELS" "")
  if(arena_UNPARSED_ARGUMENTS OR arena_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "tenure_arena: not understood: ${arena_UNPARSED_ARGUMENTS} ${arena_KEYWORDS_MISSING_VALUES}; use "
            "tenure_arena(<target> <model.tflite> [HEADER file] [MAX size] [PLANNED file] [CHIP name] [KERNELS library])")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "tenure_arena: there is no target ${target}")
  endif()
  get_filename_component(model "${model}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  get_filename_component(stem "${model}" NAME_WLE)
  if(NOT EXISTS "${model}")
    message(FATAL_ERROR "tenure_arena: there is no file ${model}")
  endif()
  if(NOT arena_HEADER)
    set(arena_HEADER ${stem}_arena.h)
  endif()
  find_program(TENURE_PROGRAM tenure NO_CMAKE_FIND_ROOT_PATH DOC "the command of Tenure")
  if(NOT TENURE_PROGRAM)
    get_filename_component(header "${arena_HEADER}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    if(NOT EXISTS "${header}")
      message(FATAL_ERROR "tenure_arena: the program tenure is not found; install Tenure, put it on the PATH, or set TENURE_PROGRAM")
    endif()
    message(WARNING "tenure_arena: the program tenure is not found; the arena of ${stem} is not checked, and ${header} is used")
    tenure_arena_use(${target} "${header}")
    return()
  endif()
  foreach(key CHIP KERNELS)
    if(NOT arena_${key})
      get_property(arena_${key} GLOBAL PROPERTY TENURE_ARENA_${key})
    endif()
  endforeach()
  if(NOT arena_CHIP)
    set(arena_CHIP cortex-m4)
  endif()
  string(REGEX REPLACE "^esp32([a-z][0-9])$" "esp32-\\1" arena_CHIP "${arena_CHIP}") # as ESP-IDF writes it
  get_filename_component(header "${arena_HEADER}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  set(outputs "${header}")
  set(planned)
  if(arena_PLANNED)
    get_filename_component(planned "${arena_PLANNED}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    list(APPEND outputs "${planned}")
  endif()
  add_custom_command(OUTPUT ${outputs}
    COMMAND "${CMAKE_COMMAND}" "-DTENURE=${TENURE_PROGRAM}" "-DMODEL=${model}" "-DHEADER=${header}" "-DPLANNED=${planned}"
            "-DMAX=${arena_MAX}" "-DCHIP=${arena_CHIP}" "-DKERNELS=${arena_KERNELS}" -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    DEPENDS "${model}" "${TENURE_PROGRAM}" "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    COMMENT "Computing the arena of ${stem}" VERBATIM)
  tenure_arena_use(${target} "${header}")
endfunction()

# A custom target (add_custom_target) depends on the header, and includes nothing.
function(tenure_arena_use target header)
  target_sources(${target} PRIVATE "${header}")
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "UTILITY")
    get_filename_component(folder "${header}" DIRECTORY)
    target_include_directories(${target} PRIVATE "${folder}")
  endif()
endfunction()
