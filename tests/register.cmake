# How every test is registered, with what all of them have in common.
#   tenure_test(NAME [IN FOLDER] [TIMEOUT SECONDS] [THREADS N] [NEEDS VARIABLE...] COMMAND PROGRAM ARGUMENT...)
# NEEDS: variables of find_program. If one found nothing, the test prints so and is skipped; it does not vanish.
# TIMEOUT: a bound against hanging. Presets give their tests a prefix (asan.plan.verify) and may leave some out.
#
# Every test belongs to one tier, which is one of its labels:
#   quick   `make check`, `make test`: tests of the release build that take at most TENURE_QUICK_SECONDS (costs.txt)
#   medium  `make test`: those that take longer; and with a sanitizer, tests that are quick
#   long    `make test-long`: with a sanitizer, tests that take longer
# tiers.txt names the exceptions.
# Tests that read TENURE_COUNT have the label "counted" too: `make test-long` runs them again, with all their cases.
set(TENURE_TEST_PREFIX "" CACHE STRING "What the names of this build's tests begin with")
set(TENURE_TEST_ONLY "" CACHE STRING "Regular expression of the tests to have; empty: all")
set(TENURE_QUICK_SECONDS 3)
set(TENURE_TEST_TIMEOUT 3000) # seconds

# costs.txt: NAME SECONDS of a processor, so that long tests begin first. tiers.txt: TIER REGEX of the full name.
foreach(list costs tiers)
  set(list_file ${PROJECT_SOURCE_DIR}/tests/${list}.txt)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list_file})
  file(STRINGS ${list_file} ${list}_lines REGEX "^[^#]")
endforeach()
foreach(line IN LISTS costs_lines)
  separate_arguments(line)
  list(GET line 0 name)
  list(GET line 1 cost_of_${name})
endforeach()

# The tier of a test by tiers.txt; empty where no row matches.
function(tenure_tier_of name out)
  foreach(line IN LISTS tiers_lines)
    string(REGEX MATCH "^([a-z]+) +(.*)$" line "${line}")
    set(tier ${CMAKE_MATCH_1})
    if(name MATCHES "^(${CMAKE_MATCH_2})$")
      set(${out} ${tier} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

# Whether a script or a source of a program reads TENURE_COUNT (tests/count.h, tests/count.py).
function(tenure_is_counted out)
  set(${out} FALSE PARENT_SCOPE)
  foreach(part IN LISTS ARGN)
    set(sources "")
    if(TARGET ${part})
      get_target_property(sources ${part} SOURCES)
    elseif(part MATCHES "\\.(py|sh)$" AND EXISTS ${part})
      set(sources ${part})
    endif()
    foreach(source IN LISTS sources)
      if(NOT IS_ABSOLUTE ${source})
        set(source ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      endif()
      if(EXISTS ${source})
        file(STRINGS ${source} reads REGEX "case_(count|step|percent)" LIMIT_COUNT 1)
        if(reads)
          set(${out} TRUE PARENT_SCOPE)
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()

# Builds what the tests of this build run, and nothing else; tenure_gate: those that are not long.
add_custom_target(tenure_tests)
add_custom_target(tenure_gate)

function(tenure_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "IN;TIMEOUT;THREADS;ALONE_WITH" "NEEDS;COMMAND")
  list(GET test_COMMAND 0 program)
  if(NOT name MATCHES "${TENURE_TEST_ONLY}" OR (CMAKE_CROSSCOMPILING AND NOT TARGET ${program})) # scripts start programs without an emulator
    return()
  endif()
  foreach(need IN LISTS test_NEEDS)
    if(NOT ${need})
      string(REGEX REPLACE "^TENURE_" "" program ${need})
      string(REPLACE "_" " " program ${program})
      string(TOLOWER ${program} program)
      set(test_COMMAND sh -c "echo 'SKIP: no ${program}' && exit 77")
    endif()
  endforeach()
  set(full ${TENURE_TEST_PREFIX}${name})
  if(test_IN)
    set(test_IN WORKING_DIRECTORY ${test_IN})
  endif()
  add_test(NAME ${full} COMMAND ${test_COMMAND} ${test_IN})
  set(cost 1)
  foreach(known IN ITEMS ${name} ${full}) # a test of a build with a prefix costs what it costs elsewhere, if not more
    if(DEFINED cost_of_${known})
      set(cost ${cost_of_${known}})
    endif()
  endforeach()
  set(targets "")
  foreach(part IN LISTS test_COMMAND)
    string(REGEX REPLACE "^\\$<TARGET_FILE:(.*)>$" "\\1" part "${part}")
    list(APPEND targets ${part})
  endforeach()
  tenure_tier_of(${full} tier)
  if(NOT tier AND cost LESS_EQUAL TENURE_QUICK_SECONDS)
    set(tier quick)
    if(TENURE_TEST_PREFIX)
      set(tier medium)
    endif()
  elseif(NOT tier)
    set(tier medium)
    if(TENURE_TEST_PREFIX)
      set(tier long)
    endif()
  endif()
  set(labels ${tier})
  if(TENURE_TEST_PREFIX)
    string(REPLACE "." "" build ${TENURE_TEST_PREFIX})
    list(APPEND labels ${build})
  endif()
  tenure_is_counted(counted ${targets})
  if(counted)
    list(APPEND labels counted)
  endif()
  set_tests_properties(${full} PROPERTIES SKIP_RETURN_CODE 77 COST ${cost} LABELS "${labels}"
                       TIMEOUT ${TENURE_TEST_TIMEOUT} FIXTURES_REQUIRED skips)
  # gcc 12 keeps wrong notes about the thread-local memory of OpenMP's threads in a library that was opened
  # with dlopen (oneDNN), and its search for leaks crashes on them; the answers of programs are not affected.
  set(sanitizer "intercept_tls_get_addr=0:")
  # oneDNN 2.6 reads one number behind a table of its own when it makes a convolution in bricks. Here that table came
  # to lie at the end of what ASan had mapped, and the process ended; with other distances it does not.
  if(full STREQUAL "asan.train.networks")
    string(APPEND sanitizer "max_redzone=16:")
  endif()
  set(slower "TENURE_SLOWER=set:1") # tests/count.h
  if(full MATCHES "^(asan|tsan|minimal)\\.")
    set(slower "TENURE_SLOWER=set:8")
  endif()
  # Kernels for wider vectors need other scratch, so the plans that documents and scripts show would depend on the
  # machine. Tests of the kernels themselves run whatever the machine has.
  set(isa "DNNL_MAX_CPU_ISA=set:AVX2")
  if(name MATCHES "^(kernels|engine|train|trainer|eager|dist|examples|fuzz)\\.")
    set(isa "DNNL_MAX_CPU_ISA=unset:")
  endif()
  # Threads of OpenMP sleep while they wait: those of a test that does not get its turn would keep others from theirs.
  set_property(TEST ${full} PROPERTY ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=string_prepend:${sanitizer}"
               "${slower}" "${isa}" "OMP_WAIT_POLICY=set:passive" "TSAN_OPTIONS=string_prepend:halt_on_error=1:") # a race may leave threads waiting
  if(test_TIMEOUT)
    set_tests_properties(${full} PROPERTIES TIMEOUT ${test_TIMEOUT})
  endif()
  if(test_THREADS)
    set_tests_properties(${full} PROPERTIES PROCESSORS ${test_THREADS})
  endif()
  if(test_ALONE_WITH) # tests that write the same folder do not run at once
    set_tests_properties(${full} PROPERTIES RESOURCE_LOCK ${test_ALONE_WITH})
  endif()
  foreach(part IN LISTS targets)
    if(TARGET ${part})
      add_dependencies(tenure_tests ${part})
      if(NOT tier STREQUAL "long")
        add_dependencies(tenure_gate ${part})
      endif()
    endif()
  endforeach()
endfunction()
