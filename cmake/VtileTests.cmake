# SPDX-License-Identifier: Apache-2.0
# Registers what stands in tests/: unit/<room>/test_*.c, system/*.sh, house/*, fuzz/fuzz_*.c.
# docs/testing.md says what each kind is for.

# vt_test(<name> <label> <seconds> <command>...)
# <seconds> is the limit. Tests of more cost start first, so that the longest do not end alone.
function(vt_test name label seconds)
    set(full ${VTILE_TEST_PREFIX}${name})
    add_test(NAME ${full} COMMAND bash ${CMAKE_SOURCE_DIR}/tests/run-test.sh ${full} ${ARGN})
    set_tests_properties(${full} PROPERTIES
        LABELS "${label}" TIMEOUT ${seconds} SKIP_RETURN_CODE 77
        ENVIRONMENT "VTILE_SOURCE=${CMAKE_SOURCE_DIR};VTILE_BUILD=${CMAKE_BINARY_DIR}")
endfunction()

# Other .c files beside test_*.c are linked into each test of that folder.
function(vt_unit_tests)
    pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
    if(NOT CMOCKA_FOUND)
        message(STATUS "no cmocka here: unit tests are not built")
        return()
    endif()
    vt_glob(tests tests/unit/*/test_*.c)
    foreach(file ${tests})
        cmake_path(GET file STEM name)
        string(REGEX REPLACE "^test_" "" name ${name})
        cmake_path(GET file PARENT_PATH folder)
        cmake_path(GET folder FILENAME room)
        file(GLOB beside CONFIGURE_DEPENDS ${folder}/*.c)
        list(FILTER beside EXCLUDE REGEX "/test_[^/]*$")
        add_executable(test_${room}_${name} ${file} ${beside})
        set_target_properties(test_${room}_${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        target_compile_definitions(test_${room}_${name} PRIVATE
            VTILE_SOURCE="${CMAKE_SOURCE_DIR}")
        target_link_libraries(test_${room}_${name} PRIVATE vt_flags vt_sanitize
            vt_orchestrator vt_agents vt_results vt_tuning vt_tiles vt_wire vt_base
            PkgConfig::CMOCKA)
        vt_test(${room}/${name} unit 300 $<TARGET_FILE:test_${room}_${name}>)
    endforeach()
endfunction()

# A script may say in comments of its own: "# needs: vm" when it boots guests (such tests run alone,
# since an emulated guest takes every CPU it gets) and "# timeout: <seconds>".
function(vt_system_tests)
    vt_glob(scripts tests/system/[0-9]*.sh)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts})
    foreach(file ${scripts})
        cmake_path(GET file STEM name)
        set(seconds 600)
        file(STRINGS ${file} says REGEX "^# timeout: *[0-9]+" LIMIT_COUNT 1)
        if(says MATCHES "([0-9]+)")
            set(seconds ${CMAKE_MATCH_1})
        endif()
        vt_test(system/${name} system ${seconds} bash ${file})
        file(STRINGS ${file} vm REGEX "^# needs:.*vm" LIMIT_COUNT 1)
        if(vm)
            set_tests_properties(${VTILE_TEST_PREFIX}system/${name} PROPERTIES RUN_SERIAL ON)
        endif()
    endforeach()
endfunction()

function(vt_house_tests)
    vt_glob(scripts tests/house/*.sh tests/house/*.py)
    foreach(file ${scripts})
        cmake_path(GET file STEM name)
        cmake_path(GET file EXTENSION extension)
        if(extension STREQUAL .py)
            vt_test(house/${name} house 120 python3 ${file})
        else()
            vt_test(house/${name} house 120 bash ${file})
        endif()
    endforeach()
endfunction()

# A target may say in a comment of its own "/* fuzz-seconds: <seconds> */"; else VTILE_FUZZ_SECONDS.
function(vt_fuzz_tests)
    vt_glob(targets tests/fuzz/fuzz_*.c)
    foreach(file ${targets})
        cmake_path(GET file STEM target)
        string(REGEX REPLACE "^fuzz_" "" name ${target})
        add_executable(${target} ${file})
        set_target_properties(${target} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
        # libFuzzer calls functions that no header declares.
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
        target_link_libraries(${target} PRIVATE vt_flags vt_sanitize
            vt_results vt_tuning vt_tiles vt_wire vt_base)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        set(found ${CMAKE_BINARY_DIR}/fuzz/corpus/${name})
        file(MAKE_DIRECTORY ${found})
        set(seeds ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
        if(NOT IS_DIRECTORY ${seeds})
            set(seeds "")
        endif()
        set(fuzzed ${VTILE_FUZZ_SECONDS})
        file(STRINGS ${file} says REGEX "^/\\* fuzz-seconds: *[0-9]+" LIMIT_COUNT 1)
        if(says MATCHES "([0-9]+)")
            set(fuzzed ${CMAKE_MATCH_1})
        endif()
        math(EXPR seconds "${fuzzed} + 120")
        vt_test(fuzz/${name} fuzz ${seconds} $<TARGET_FILE:${target}>
            -max_total_time=${fuzzed} -timeout=10 -rss_limit_mb=2048
            -print_final_stats=1 -artifact_prefix=${CMAKE_BINARY_DIR}/fuzz/${name}-
            ${found} ${seeds})
        set_tests_properties(${VTILE_TEST_PREFIX}fuzz/${name} PROPERTIES COST 200)
    endforeach()
endfunction()

# One entry a room, so that ctest keeps every CPU busy with them.
function(vt_lint_tests)
    foreach(tool format cppcheck)
        vt_test(lint/${tool} lint 600 bash ${CMAKE_SOURCE_DIR}/scripts/lint.sh ${tool})
    endforeach()
    foreach(room base wire tiles tuning results agents orchestrator tests)
        vt_test(lint/tidy-${room} lint 900
            bash ${CMAKE_SOURCE_DIR}/scripts/lint.sh tidy ${room})
        file(GLOB_RECURSE sources ${room}/*.c)
        list(LENGTH sources count)
        math(EXPR cost "200 + ${count}")
        set_tests_properties(${VTILE_TEST_PREFIX}lint/tidy-${room} PROPERTIES COST ${cost})
    endforeach()
endfunction()

# Programs that scripts of lab/, bench/ and system/ run: one of each .c file, as <build>/tests/<name>.
# load_curl.c is left out where libcurl is not there.
function(vt_test_programs)
    vt_glob(sources tests/lab/*.c tests/bench/*.c tests/system/*.c)
    pkg_check_modules(CURL QUIET IMPORTED_TARGET libcurl)
    if(NOT CURL_FOUND)
        list(FILTER sources EXCLUDE REGEX "/load_curl\\.c$")
    endif()
    foreach(file ${sources})
        cmake_path(GET file STEM name)
        add_executable(${name} ${file})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        target_link_libraries(${name} PRIVATE vt_flags vt_sanitize vt_orchestrator)
    endforeach()
    if(CURL_FOUND)
        target_link_libraries(load_curl PRIVATE PkgConfig::CURL)
    endif()
endfunction()

if(VTILE_FUZZ)
    vt_fuzz_tests()
else()
    vt_unit_tests()
    vt_test_programs()
    if(NOT VTILE_SANITIZE)
        vt_system_tests()
        vt_house_tests()
        vt_lint_tests()
    endif()
endif()
