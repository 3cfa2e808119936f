// Package webhook makes policies of ValidatingWebhookConfigurations and
// MutatingWebhookConfigurations: servers elsewhere that are asked about writes
// over HTTPS.
//
// Each webhook of a configuration is one policy of the chain. What goes over the
// wire, what may come back and what clients are told is as upstream has it. A
// call ends with the webhook's timeout or with the budget of the request,
// whichever is earlier; connections are kept and shared by all webhooks with the
// same address and certificates.
package webhook
