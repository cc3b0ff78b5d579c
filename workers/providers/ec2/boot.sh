#!/bin/bash
# What an instance does at its first boot: fetch the image and the model's data, run the container, and tell the console
# how it ended. Every value comes from the payload at the end, which is base64 of gzip of fields that end with NUL, so
# that no value is ever read as shell. It runs behind cloud-init, which would otherwise wait for the container's end.

finish() { # the word for the kind of end, then one line for humans; the machine's end is the message's carrier
    printf '\nHEADRACE-END %s %s\n' "$1" "$(tr -s '[:cntrl:]' ' ' <<<"$2" | tail -c 200)" >"$console"
    sync
    shutdown -h now
    exit 0
}

fetch_model() {
    local archive="$model_dir.tar" why
    mkdir -p "$model_dir" || finish model_data "the machine cannot hold the model's data"
    why=$(timeout "$download_seconds" aws s3 cp --only-show-errors "$model_url" "$archive" 2>&1) ||
        finish model_data "the model's data cannot be fetched: ${why:-it took longer than $download_seconds s}"
    why=$(tar -xf "$archive" --no-same-owner -C "$model_dir" 2>&1) ||
        finish model_data "the model's data cannot be unpacked: $why"
    rm -f "$archive"
}

log_in() {
    aws ecr get-login-password --region "$registry_region" 2>/dev/null |
        docker login --username AWS --password-stdin "$registry" >/dev/null 2>&1 ||
        finish container_exited "the machine's role may not read from $registry"
}

run_container() {
    local device code why
    for device in /dev/neuron*; do
        [ -e "$device" ] && docker_options+=(--device "$device")
    done
    docker run --name headrace "${docker_options[@]}" "${command[@]}" >/dev/null 2>"$model_dir.log"
    code=$?
    why=$(docker logs --tail 1 headrace 2>&1) || why=$(tail -n 1 "$model_dir.log")
    [ "$code" -eq 125 ] && finish container_exited "docker could not start the image: $(tail -n 1 "$model_dir.log")"
    finish container_exited "exited with code $code${why:+: $why}"
}

main() {
    local fields=() field
    while IFS= read -r -d '' field; do fields+=("$field"); done < <(base64 -d <<<"$payload" | gunzip)
    console=${fields[0]} model_dir=${fields[1]} model_url=${fields[2]} download_seconds=${fields[3]}
    registry=${fields[4]} registry_region=${fields[5]}
    docker_options=("${fields[@]:7:${fields[6]}}") command=("${fields[@]:7+${fields[6]}}")
    systemctl start docker 2>/dev/null
    mkdir -p "$model_dir"
    [ -n "$registry" ] && log_in
    [ -n "$model_url" ] && fetch_model
    run_container
}

payload='@payload@'
main </dev/null &
