# SPDX-License-Identifier: Apache-2.0
# vt_room(), vt_program(), vt_static_program(): targets made from the files of a folder.

add_library(vt_flags INTERFACE)
target_include_directories(vt_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(vt_flags INTERFACE
    _GNU_SOURCE _FILE_OFFSET_BITS=64 VTILE_VERSION="${PROJECT_VERSION}")
target_compile_options(vt_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:
    -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wpointer-arith -Wwrite-strings -Wstrict-prototypes
    -Wmissing-prototypes
    # Same seed, same bytes: gcc and clang may not fuse a multiplication and an addition.
    -ffp-contract=off
    -fstack-protector-strong -ffunction-sections -fdata-sections>)
target_link_options(vt_flags INTERFACE -Wl,--gc-sections -Wl,--as-needed -Wl,-z,relro,-z,now)
# Long texts in tables are written as several literals; clang takes that for a forgotten comma.
target_compile_options(vt_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:C>,$<C_COMPILER_ID:Clang>>:-Wno-string-concatenation>)
if(VTILE_WERROR)
    target_compile_options(vt_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()

add_library(vt_sanitize INTERFACE)
if(VTILE_SANITIZE)
    target_compile_options(vt_sanitize INTERFACE $<$<COMPILE_LANGUAGE:C>:
        -fsanitize=${VTILE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
    # Instrumented, gcc loses the ranges by which it judges these two; other builds judge them.
    if(CMAKE_C_COMPILER_ID STREQUAL GNU)
        target_compile_options(vt_sanitize INTERFACE
            $<$<COMPILE_LANGUAGE:C>:-Wno-format-truncation -Wno-maybe-uninitialized>)
    endif()
    target_link_options(vt_sanitize INTERFACE -fsanitize=${VTILE_SANITIZE})
endif()
if(VTILE_FUZZ)
    target_compile_options(vt_sanitize INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>)
endif()

# vt_glob(<out> <pattern>...): files that match, sorted, looked for again at each build.
function(vt_glob out)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/)
    file(GLOB files CONFIGURE_DEPENDS ${ARGN})
    list(SORT files)
    set(${out} "${files}" PARENT_SCOPE)
endfunction()

# vt_room(<target> SOURCES <pattern>... [EXCEPT <file>...] [LINK <library>...])
# A room without a source file yet is an interface library, so that others can link it already.
function(vt_room target)
    cmake_parse_arguments(ARG "" "" "SOURCES;EXCEPT;LINK" ${ARGN})
    vt_glob(sources ${ARG_SOURCES})
    if(ARG_EXCEPT)
        list(TRANSFORM ARG_EXCEPT PREPEND ${CMAKE_SOURCE_DIR}/)
        list(REMOVE_ITEM sources ${ARG_EXCEPT})
    endif()
    if(sources)
        add_library(${target} STATIC ${sources})
        target_link_libraries(${target} PRIVATE vt_flags vt_sanitize)
        target_link_libraries(${target} PUBLIC ${ARG_LINK})
    else()
        add_library(${target} INTERFACE)
        target_link_libraries(${target} INTERFACE ${ARG_LINK})
    endif()
endfunction()

# What `./dev run` needs, without the tests.
add_custom_target(programs)

# vt_program(<target> <main file> <room>): a program whose main() stands alone in a file.
function(vt_program target main room)
    vt_glob(source ${main})
    if(source)
        add_executable(${target} ${source})
        target_link_libraries(${target} PRIVATE vt_flags vt_sanitize ${room})
        target_link_options(${target} PRIVATE -pie)
        add_dependencies(programs ${target})
        install(TARGETS ${target})
    endif()
endfunction()

function(vt_static_program target)
    vt_glob(sources ${ARGN})
    if(sources)
        add_executable(${target} ${sources})
        target_link_libraries(${target} PRIVATE vt_flags)
        # Stripped: a guest keeps it in memory, symbols and all.
        target_link_options(${target} PRIVATE -static -s)
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        add_dependencies(programs ${target})
        install(TARGETS ${target})
    endif()
endfunction()
