# The system's packages. Every one of them is asked for by name when it is missing.

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)

# strata_uring, strata_aio and strata_dnnl, the first two static where the programs are to be carried.
function(strata_find_library target header)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  if(STRATA_STATIC AND NOT target STREQUAL dnnl)  # Debian has no static oneDNN
    set(names lib${target}.a)
  else()
    set(names ${target} lib${target}.a)
  endif()
  find_library(${target}_LIBRARY NAMES ${names} REQUIRED)
  add_library(strata_${target} INTERFACE)
  target_link_libraries(strata_${target} INTERFACE
    $<BUILD_INTERFACE:${${target}_LIBRARY}> $<INSTALL_INTERFACE:${target}>)
  set_property(GLOBAL APPEND PROPERTY STRATA_LIBRARIES strata_${target})
endfunction()
strata_find_library(uring liburing.h)
strata_find_library(aio libaio.h)
# Debian's dnnl-config.cmake asks for OpenCL, which the CPU kernels do not use.
strata_find_library(dnnl dnnl.h)
# oneDNN's own OpenMP runtime, to be told to use one thread.
target_link_libraries(strata_dnnl INTERFACE gomp)

if(STRATA_STATIC)
  # Debian's Abseil package exports the shared files; the static ones lie beside them.
  get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS imported)
    get_target_property(type ${target} TYPE)
    if(target MATCHES "^absl::" AND NOT type STREQUAL INTERFACE_LIBRARY)
      get_target_property(location ${target} LOCATION)
      string(REGEX REPLACE "\\.so.*$" ".a" location "${location}")
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE "${location}" IMPORTED_SONAME_NONE "")
    endif()
  endforeach()
endif()

# CUDA: a machine without nvcc builds everything else.
set(STRATA_HAS_CUDA OFF)
if(STRATA_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${STRATA_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    # CMake 3.25 knows no C++20 for CUDA and would drop the flag in silence.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA_STANDARD 20)
    find_package(CUDAToolkit REQUIRED)
    set(STRATA_HAS_CUDA ON)
  endif()
endif()
message(STATUS "strata: CUDA ${STRATA_HAS_CUDA}")

# A card to run tests on: what the driver lists, asked at each configuring.
set(STRATA_HAS_GPU OFF)
if(STRATA_HAS_CUDA)
  execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE smi_result OUTPUT_VARIABLE cards ERROR_QUIET)
  if(smi_result EQUAL 0 AND cards MATCHES "GPU 0")
    set(STRATA_HAS_GPU ON)
  endif()
endif()

if(STRATA_TESTS)
  find_package(GTest REQUIRED)
endif()
if(STRATA_BENCH)
  find_package(benchmark REQUIRED)
endif()
