import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * One JVM that loads brokers through RocketMQ's Java client, for the side-by-side bench.
 *
 * <p>Each line of standard input is a command in JSON with an "id"; each is answered by one line of JSON
 * with that id and the report, or "error". The JVM ends when standard input closes. Commands: "open"
 * (a producer for "namesrv"), "send" (Sending, or AsyncSending with "inFlight"), "consume" (Backlog), "close".
 */
public final class Load {
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();

    private Load() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what the client prints is no answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject command = JSON.parseObject(line);
            JSONObject answer = new JSONObject(true);
            answer.put("id", command.getIntValue("id"));
            answer.put("do", command.getString("do"));
            try {
                answer.putAll(run(command));
            } catch (Throwable error) {
                answer.put("error", error.toString());
            }
            out.println(answer);
        }
        System.exit(0);
    }

    private static JSONObject run(JSONObject command) throws Exception {
        String namesrv = command.getString("namesrv");
        switch (command.getString("do")) {
            case "open":
                DefaultMQProducer producer = new DefaultMQProducer("bench_producer");
                producer.setNamesrvAddr(namesrv);
                producer.setInstanceName("producer@" + namesrv);
                producer.setRetryTimesWhenSendFailed(0);
                producer.start();
                PRODUCERS.put(namesrv, producer);
                return new JSONObject();
            case "send":
                DefaultMQProducer opened = PRODUCERS.get(namesrv);
                return command.getIntValue("inFlight") > 0
                    ? new AsyncSending(opened, command).run()
                    : new Sending(opened, command).run();
            case "consume":
                return new Backlog(command).run();
            case "close":
                PRODUCERS.remove(namesrv).shutdown();
                return new JSONObject();
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }
}
