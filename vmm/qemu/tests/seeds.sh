# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # machine.sh uses qemu
# Sourced, behind lib.sh, qmp.sh and machine.sh: a guest under our QEMU that draws what it does from a
# seed. Its image is $image, further properties of -cpu are $properties, and it is given $rounds; what it
# says in the end begins with $says, and then come its own three cases.
#
# A merciful guest has to pass its own tests at the end, also when it was migrated amid. A merciless one
# may do what it likes to itself: QEMU has to answer and end, and a capture from outside is what ran.

qemu_dir=${QEMU_DIR:-${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/qemu}
qemu=$qemu_dir/build/qemu-system-x86_64
execlog=${EXECLOG:-${BUILD:?}/qemu/execlog.so}
limit=120
merciless_limit=30
KILLED=137 # by timeout's second signal: QEMU did not end on the first

# machine SEED WORD PROFILE [ARGUMENT...]
machine() {
    local seed=$1 word=$2 profile=$3
    shift 3
    bare_machine "$limit" "${properties:-}vpt-profile=$profile" "${image:?}" \
        -append "seed=$seed rounds=${rounds:?} $word" "$@" </dev/null
}

# held LOG: the guest's own tests.
held() {
    grep -aqE '^3 passed, 0 failed' "$1"
}

merciful() { # SEED PROFILE
    local seed=$1 profile=$2
    (machine "$seed" '' "$profile") >"${work:?}/out" 2>&1
    if ! held "$work/out"; then
        fail "seed $seed on $profile" "$(grep -aE '^FAIL|passed|qemu|unexpected' "$work/out" | head -n 3)"
    else
        pass "seed $seed on $profile: $(grep -a "^${says:?}:" "$work/out")"
    fi
}

# The guest may end in any way, or not at all. Signals that timeout did not send come from a crash.
merciless() { # SEED PROFILE
    local seed=$1 profile=$2 status
    local limit=$merciless_limit
    (machine "$seed" merciless "$profile") >"$work/out" 2>&1
    status=$?
    if [ $status -gt 128 ]; then
        fail "merciless seed $seed on $profile" "status $status$([ $status = $KILLED ] && echo ' (it hung)')"
        tail -n 5 "$work/out"
    else
        pass "merciless seed $seed on $profile: the guest ended with status $status"
    fi
}

# Stops the guest when it has begun, carries it over to another process, and lets it end there.
migrated() { # SEED PROFILE
    local tries=0 pid
    qmp_pipes "$work/qmp"
    (machine "$1" '' "$2" -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control) >"$work/from" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
    while ! grep -aq '^round [1-9]' "$work/from" && [ $tries -lt 1000 ]; do
        sleep 0.01
        tries=$((tries + 1))
    done
    qmp stop >"$work/answer" && qmp_migrate "exec:cat >$work/state" >"$work/answer" || return 1
    qmp quit >"$work/answer"
    wait "$pid"
    qmp_close
    qmp_pipes "$work/qmp"
    (machine "$1" '' "$2" -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -incoming "exec:cat $work/state") >"$work/out" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
    qmp_arrived
    qmp cont >"$work/answer"
    wait "$pid"
    qmp_close
    ! held "$work/from" && held "$work/out"
}

# A capture from outside, with its code, of a guest that traces itself so.
capture() { # SEED PROFILE WORD
    local pid limit=60
    qmp_pipes "$work/qmp"
    (machine "$1" "$3" "$2" -S -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,blocks=$work/log") >"$work/out" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
    qmp x-vpt-start '"file": "'"$work/capture"'", "code": true' >"$work/answer" &&
        qmp cont >"$work/answer" || return 1
    wait "$pid"
    qmp_close
    "$BUILD/qemu/compare" "$work/capture.0" "$work/log.0" "$work/log.table" >"$work/compared" 2>&1 &&
        grep -q ', 0 errors, 0 bytes lost' "$work/compared"
}

captured() { # SEED PROFILE WORD
    local name="seed $1 on $2, captured${3:+, $3}"
    rm -f "$work"/{answer,compared,capture.*,log.*}
    if [ ! -f "$execlog" ]; then
        skip "$name" 'no plugin (make qemu-tools)'
    elif capture "$@"; then
        pass "$name: $(sed -n 's/ branches, .*/ branches/p' "$work/compared")"
    else
        fail "$name" "$(tail -qn 3 "$work"/{answer,out,compared})"
    fi
}
