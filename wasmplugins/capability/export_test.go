package capability

// ListsHost is listsHost, for tests.
var ListsHost = listsHost
