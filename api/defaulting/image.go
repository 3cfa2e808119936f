package defaulting

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy returns the default for an image: what is tagged latest, or not at
// all, may change and is always pulled.
func pullPolicy(image string) corev1.PullPolicy {
	if imageTag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// imageTag returns the tag of an image, which is latest if it has neither a tag
// nor a digest, and "" if it has a digest alone or is no image at all.
func imageTag(image string) string {
	name, _, pinned := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
		if tag == "" {
			return ""
		}
	} else if !pinned {
		tag = "latest"
	}
	path := name
	if host, rest, ok := strings.Cut(name, "/"); ok &&
		(strings.ContainsAny(host, ".:") || host == "localhost" || host != strings.ToLower(host)) {
		path = rest
	}
	if path == "" || path != strings.ToLower(path) || strings.ContainsAny(path, " \t\n") {
		return ""
	}
	return tag
}
