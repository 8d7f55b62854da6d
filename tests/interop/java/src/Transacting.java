import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A transactional producer: message i is decided at once by "decisions"[i], and by "checks"[i] when the
 * broker asks. Every question is an event "check". A topic of "trace" gets what became of each message.
 */
final class Transacting implements TransactionListener {
    private static final String NUMBER = "number";
    private final String id;
    private final JSONObject command;
    private final TransactionMQProducer producer;

    Transacting(JSONObject command) throws Exception {
        id = command.getString("id");
        this.command = command;
        String trace = command.getString("trace");
        producer = new TransactionMQProducer(null, command.getString("group"), null, trace != null, trace);
        producer.setNamesrvAddr(command.getString("namesrv"));
        producer.setInstanceName("transactions" + id);
        producer.setMqClientApiTimeout(Driver.API_MILLIS);
        producer.setSendMsgTimeout(Driver.API_MILLIS);
        producer.setTransactionListener(this);
        producer.start();
    }

    JSONObject run() throws Exception {
        JSONArray results = new JSONArray();
        for (int i = 0; i < command.getJSONArray("decisions").size(); i++) {
            byte[] body = ("transaction " + i).getBytes(StandardCharsets.UTF_8);
            Message message = new Message(command.getString("topic"), "TagTx", body);
            if (command.containsKey("keys")) {
                message.setKeys(command.getString("keys"));
            }
            message.putUserProperty(NUMBER, Integer.toString(i));
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            JSONObject fields = new JSONObject();
            fields.put("status", result.getSendStatus().name());
            fields.put("state", result.getLocalTransactionState().name());
            fields.put("queueId", result.getMessageQueue().getQueueId());
            results.add(fields);
        }
        JSONObject fields = new JSONObject();
        fields.put("results", results);
        return fields;
    }

    void close() {
        producer.shutdown();
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state("decisions", message);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        JSONObject fields = new JSONObject();
        fields.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        fields.put("topic", message.getTopic());
        fields.put("times", message.getProperty("TRANSACTION_CHECK_TIMES"));
        Driver.emit(id, "check", fields);
        return state("checks", message);
    }

    private LocalTransactionState state(String which, Message message) {
        int number = Integer.parseInt(message.getUserProperty(NUMBER));
        return LocalTransactionState.valueOf(command.getJSONArray(which).getString(number));
    }
}
