package guest

// Debug, Info, Warn and Error write a line to the server's log, where it
// carries the plugin's name. A call may write 8 KiB.
func Debug(text string) { log(0, text) }

// Info writes a line.
func Info(text string) { log(1, text) }

// Warn writes a line.
func Warn(text string) { log(2, text) }

// Error writes a line.
func Error(text string) { log(3, text) }
