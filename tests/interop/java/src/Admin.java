import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs one mqadmin command inside this JVM and reports what it printed. */
final class Admin {
    private Admin() {
    }

    static JSONObject run(JSONObject command) {
        String[] arguments = command.getJSONArray("arguments").toArray(new String[0]);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        try {
            MQAdminStartup.main0(arguments, null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        JSONObject fields = new JSONObject();
        fields.put("printed", printed.toString(StandardCharsets.UTF_8));
        return fields;
    }
}
