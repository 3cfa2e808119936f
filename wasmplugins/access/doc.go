// Package access is the extension points of authorization and authentication:
// it makes authorizers and a token verifier of AuthorizationPlugins and
// AuthenticationPlugins.
//
// The server asks its own authorizers and verifiers first. Members of
// system:masters never come here, and no plugin can make anybody one: a user or
// group whose name begins with "system:" is a bad reply.
package access
