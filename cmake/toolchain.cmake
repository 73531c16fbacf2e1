# Warnings, sanitizers, and the fast tools when they are there.
add_library(dlock_build INTERFACE)
target_compile_options(dlock_build INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wold-style-cast
  $<$<BOOL:${DLOCK_WERROR}>:-Werror>)

# What libdlock exports is named in src/dlock.map; within it calls may be inlined all the same.
add_compile_options(-fno-semantic-interposition)

if(DLOCK_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(DLOCK_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)  # Asio's fences, which GCC cannot instrument
  add_link_options(-fsanitize=thread)
elseif(DLOCK_SANITIZE)
  message(FATAL_ERROR "DLOCK_SANITIZE is '${DLOCK_SANITIZE}'; use address, thread or nothing")
endif()

find_program(DLOCK_CCACHE ccache)
if(DLOCK_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DLOCK_CCACHE})
endif()
find_program(DLOCK_MOLD mold)
if(DLOCK_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
