# The three kinds of target that this project has, and the flags that all of them share.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")  # CHECKs stay; stack traces have lines
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
option(STRATA_WERROR "Warnings are errors" OFF)

find_program(STRATA_CCACHE ccache)
if(STRATA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${STRATA_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${STRATA_CCACHE}")
endif()

add_library(strata_flags INTERFACE)
# -ffp-contract=off: a contracted multiply-add changes bits between compilers and devices
# (design: one optimizer formula everywhere). -fno-math-errno lets sqrt vectorise; no bit changes.
target_compile_options(strata_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-missing-field-initializers
    -ffp-contract=off -fno-math-errno>)
target_compile_options(strata_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall>)
if(STRATA_WERROR)
  target_compile_options(strata_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(strata_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
endif()
if(STRATA_SANITIZE)
  target_compile_options(strata_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STRATA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined>)
  target_link_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZE})
endif()
target_include_directories(strata_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/strata>)

# strata_library(NAME SOURCES ... DEPENDS ...): the links repeat the arrows of docs/architecture.md.
function(strata_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC strata_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY STRATA_LIBRARIES ${name})
endfunction()

# What ThreadSanitizer has to see: all tests with the label `threads`.
add_custom_target(thread_tests)

# strata_test(NAME SOURCES ... DEPENDS ... LABELS unit|threads|slow|gpu): one binary, one ctest entry.
function(strata_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${name}.cc)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} strata_flags GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_tests ${name})
  endif()
endfunction()

# strata_gpu_test(NAME SOURCES ... DEPENDS ...): needs nvcc to build and a card to run. Without a card it is
# no test of ctest's, so that no test is skipped unseen; strata_report_gpu_tests() says so, once.
function(strata_gpu_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT STRATA_HAS_CUDA)
    return()
  endif()
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${name}.cc)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} strata_flags CUDA::cudart_static GTest::gtest_main)
  if(STRATA_HAS_GPU)
    add_test(NAME ${name} COMMAND ${name})
    # One after the other: they want the card's memory, and a step's time, to themselves.
    set_tests_properties(${name} PROPERTIES LABELS gpu TIMEOUT 600 RESOURCE_LOCK gpu)
  endif()
endfunction()

function(strata_report_gpu_tests)
  if(NOT STRATA_HAS_GPU)
    add_test(NAME no_gpu_here_so_gpu_tests_are_not_run
      COMMAND ${CMAKE_COMMAND} -E echo "no GPU: gpu tests not run (CUDA in this build: ${STRATA_HAS_CUDA})")
    set_tests_properties(no_gpu_here_so_gpu_tests_are_not_run PROPERTIES LABELS "unit;gpu")
    message(STATUS "strata: no GPU: gpu tests not run")
  endif()
endfunction()
