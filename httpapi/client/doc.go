// Package client is how every component but the API server itself reaches the
// API: over TLS, or in one process through the server's http.Handler.
//
// A REST holds the address and the credentials. For gives the typed client of
// one kind:
//
//	rest, err := client.FromKubeconfig(path)
//	pods := client.For[*corev1.Pod](rest)
//	pod, err := pods.Get(ctx, "default", "web-0")
//
// Answers that are not 2xx come back as *errors.StatusError of apimachinery,
// so that errors.IsNotFound and its like tell them apart. Errors that are not
// such a StatusError mean that the outcome of the call is unknown.
//
// Everything here is safe for concurrent use, except a Watch, whose Next
// belongs to one goroutine.
package client
