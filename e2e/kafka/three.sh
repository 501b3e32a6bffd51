#!/usr/bin/env bash
# Three brokers of Kafka on this machine, each also a controller, whose topics have three copies: for trying by hand what happens to a
# cluster when one of them dies.
#
#   e2e/kafka/three.sh start DIR PORT   makes and starts them: clients at PORT, PORT+2 and PORT+4, controllers at the ports behind these
#   e2e/kafka/three.sh kill DIR N       kill -9 of broker N, 1 to 3
#   e2e/kafka/three.sh again DIR N      starts broker N again where it was
#   e2e/kafka/three.sh leaders DIR      who leads how many partitions, who coordinates, which copies are in sync
#   e2e/kafka/three.sh stop DIR         ends all of them
#
# The libraries are those that `./test optional` fetches; KAFKA names another folder of them. Everything is kept in DIR, which is not removed.
set -euo pipefail

libraries=${KAFKA:-$(realpath "$(dirname "$0")/../..")/target/servers/kafka/lib}

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

java_run() { exec java -Xmx"${HEAP:-384m}" -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOGLEVEL:-warn}" -Dorg.slf4j.simpleLogger.showDateTime=true -cp "$libraries/*" "$@"; }

port_of() { echo $((base + 2 * ($1 - 1))); }

# Copies of everything that Kafka keeps for itself, as many as of everything else. The rest is as Kafka ships it.
properties() {
    local client controller
    client=$(port_of "$1") controller=$(($(port_of "$1") + 1))
    cat <<END
process.roles=broker,controller
node.id=$1
controller.quorum.voters=1@127.0.0.1:$(($(port_of 1) + 1)),2@127.0.0.1:$(($(port_of 2) + 1)),3@127.0.0.1:$(($(port_of 3) + 1))
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$client,CONTROLLER://127.0.0.1:$controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$directory/data-$1
auto.create.topics.enable=false
offsets.topic.replication.factor=3
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=6
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
share.coordinator.state.topic.num.partitions=2
${MORE:-}
END
}

run_broker() {
    LOGLEVEL=info java_run kafka.Kafka "$directory/broker-$1.properties" >>"$directory/broker-$1.log" 2>&1 &
    echo $! >"$directory/broker-$1.pid"
}

wait_for() {
    local waited=0
    until grep -q 'Kafka Server started' "$directory/broker-$1.log"; do
        kill -0 "$(cat "$directory/broker-$1.pid")" 2>/dev/null || { echo "broker $1 has ended; see $directory/broker-$1.log" >&2; exit 1; }
        [ $((waited += 1)) -le 300 ] || { echo "broker $1 is not ready after 60 s; see $directory/broker-$1.log" >&2; exit 1; }
        sleep 0.2
    done
}

start() {
    compgen -G "$libraries/kafka_*.jar" >/dev/null || { echo "no Kafka in $libraries: ./test optional fetches it, or set KAFKA" >&2; exit 1; }
    mkdir -p "$directory"
    echo "$base" >"$directory/port"
    for n in 1 2 3; do
        properties "$n" >"$directory/broker-$n.properties"
        : >"$directory/broker-$n.log"
        java_run kafka.tools.StorageTool format --ignore-formatted -t MkU3OEVBNTcwNTJENDM2Qg \
            -c "$directory/broker-$n.properties" >/dev/null 2>>"$directory/broker-$n.log" &
    done
    wait
    for n in 1 2 3; do run_broker "$n"; done
    for n in 1 2 3; do wait_for "$n"; done
    echo "kafka://127.0.0.1:$(port_of 1),127.0.0.1:$(port_of 2),127.0.0.1:$(port_of 3)"
}

stop() {
    for n in 1 2 3; do kill -9 "$(cat "$directory/broker-$n.pid")" 2>/dev/null || true; done
}

# Any broker that answers says it.
leaders() {
    local servers
    servers="127.0.0.1:$(port_of 1),127.0.0.1:$(port_of 2),127.0.0.1:$(port_of 3)"
    java_run org.apache.kafka.tools.TopicCommand --bootstrap-server "$servers" --describe |
        awk '/Leader:/ { for (i = 1; i < NF; i++) { if ($i == "Topic:") topic = $(i + 1); if ($i == "Leader:") leader = $(i + 1); if ($i == "Isr:") isr = $(i + 1) }
             what = topic == "__transaction_state" ? "coordinates" : "leads"; count[what " " leader]++; if (split(isr, all, ",") < 3) short++ }
             END { for (key in count) { split(key, part, " "); printf "broker %s %s %d partitions\n", part[2], part[1], count[key] } printf "%d partitions have fewer than three copies in sync\n", short }' | sort
}

[ $# -ge 2 ] || usage
directory=$(realpath -m "$2")
case $1 in
    start) [ $# -eq 3 ] || usage; base=$3; start ;;
    kill | again | leaders | stop)
        base=$(cat "$directory/port")
        case $1 in
            kill) kill -9 "$(cat "$directory/broker-${3:?N}.pid")" ;;
            again) : >"$directory/broker-${3:?N}.log"; run_broker "$3"; wait_for "$3" ;;
            *) "$1" ;;
        esac ;;
    *) usage ;;
esac
