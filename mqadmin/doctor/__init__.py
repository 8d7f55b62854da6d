"""The health check of a cluster: `survey` asks the servers, the checks judge the answers."""
