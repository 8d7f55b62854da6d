import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** The account that a command names by "accessKey" and "secretKey"; null without one. */
final class Account {
    private Account() {
    }

    static RPCHook hook(JSONObject command) {
        String key = command.getString("accessKey");
        if (key == null) {
            return null;
        }
        return new AclClientRPCHook(new SessionCredentials(key, command.getString("secretKey")));
    }

    /** Clients of one JVM share connections and hook by their instance name. */
    static String instance(String name, JSONObject command) {
        String key = command.getString("accessKey");
        return key == null ? name : name + "_" + key + command.getString("secretKey").hashCode();
    }
}
