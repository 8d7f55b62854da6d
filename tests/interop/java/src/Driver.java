import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * One JVM that drives RocketMQ's Java client for the interop tests.
 *
 * <p>Each line of standard input is a command in JSON with an "id"; each line of standard output is an
 * event in JSON: {"id", "event": "done"|"failed"|"message", ...}. The JVM ends when standard input closes.
 */
public final class Driver {
    static final int API_MILLIS = 60_000; // for routes and members, 3 s otherwise
    static final PrintStream EVENTS = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final ConcurrentHashMap<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, Consuming> consumers = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, Transacting> transactions = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // what RocketMQ prints by itself is not an event
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        emit("ready", "ready", new JSONObject());
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            driver.obey(JSON.parseObject(line));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Print one event; safe from any thread. */
    static void emit(String id, String event, JSONObject fields) {
        fields.put("id", id);
        fields.put("event", event);
        synchronized (EVENTS) {
            EVENTS.println(fields.toJSONString());
        }
    }

    private void obey(JSONObject command) {
        String id = command.getString("id");
        try {
            emit(id, "done", answer(command));
        } catch (Throwable error) {
            JSONObject fields = new JSONObject();
            fields.put("error", error.toString());
            emit(id, "failed", fields);
        }
    }

    private JSONObject answer(JSONObject command) throws Exception {
        switch (command.getString("do")) {
            // With "beatMs" a producer tells the broker of itself that often, and has once when it sends.
            // With "routeMs" it asks for routes that often.
            case "produce":
                return Producing.run(producer(command, "sends"), command);
            case "consume":
                consumers.put(command.getString("id"), new Consuming(command));
                return new JSONObject();
            case "held":
                return consumers.get(command.getString("consumer")).held();
            case "stop":
                consumers.remove(command.getString("consumer")).close();
                return new JSONObject();
            case "request":
                // A producer of its own: it tells brokers of itself when it asks about a topic it does not know.
                return Producing.request(producer(command, "requests"), command);
            case "transact":
                Transacting transacting = new Transacting(command);
                transactions.put(command.getString("id"), transacting);
                return transacting.run();
            case "stop_transacting":
                transactions.remove(command.getString("producer")).close();
                return new JSONObject();
            case "pull":
                return Pulling.pull(command);
            case "lite_pull":
                return Pulling.litePull(command);
            case "admin":
                return Admin.run(command);
            default:
                throw new IllegalArgumentException("unknown command: " + command);
        }
    }

    private DefaultMQProducer producer(JSONObject command, String purpose) throws Exception {
        String namesrv = command.getString("namesrv");
        String trace = command.getString("trace"); // the topic, without which none is kept
        // Client ids are of one JVM: a broker pushes a reply to who introduced itself last.
        String name = purpose + ProcessHandle.current().pid() + "@" + namesrv.replace(':', '_');
        String instance = Account.instance(name, command);
        instance = trace == null ? instance : instance + "_" + trace;
        DefaultMQProducer known = producers.get(instance);
        if (known != null) {
            return known;
        }
        DefaultMQProducer producer = new DefaultMQProducer(
                "interop_" + purpose, Account.hook(command), trace != null, trace);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(instance);
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(Driver.API_MILLIS);
        if (command.containsKey("beatMs")) {
            producer.setHeartbeatBrokerInterval(command.getIntValue("beatMs"));
        }
        if (command.containsKey("routeMs")) {
            producer.setPollNameServerInterval(command.getIntValue("routeMs"));
        }
        producer.start();
        if (command.containsKey("beatMs")) {
            producer.fetchPublishMessageQueues(command.getString("topic")); // whom to tell of itself
            awaitFirstBeat(producer.getDefaultMQProducerImpl().getMqClientFactory());
        }
        producers.put(instance, producer);
        return producer;
    }

    /** A client's first heartbeat comes a second after its start, on a thread that does one thing at a time. */
    private static void awaitFirstBeat(MQClientInstance client) throws Exception {
        client.getScheduledExecutorService().schedule(() -> { }, 1_001, TimeUnit.MILLISECONDS).get();
    }
}
