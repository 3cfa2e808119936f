package httpapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
)

// podLog answers GET on a pod's log with what the node's agent says.
func (s *Server) podLog(w http.ResponseWriter, r *http.Request, c *call) error {
	q := c.query()
	for _, name := range []string{"tailLines", "sinceSeconds", "limitBytes"} {
		if v := q.Get(name); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return badRequest("%v", err)
			}
			if n < 0 || (n == 0 && name != "tailLines") {
				return badRequest("%s: Invalid value: %d: must be greater than 0", name, n)
			}
		}
	}
	pod, err := s.loadPod(r, c)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, q.Get("container"), false)
	if err != nil {
		return err
	}
	keep := url.Values{}
	for _, name := range []string{"follow", "tailLines", "previous", "timestamps", "sinceSeconds", "sinceTime", "limitBytes", "stream", "insecureSkipTLSVerifyBackend"} {
		if v, ok := q[name]; ok {
			keep[name] = v
		}
	}
	return s.toNode(w, r, pod, "/containerLogs/"+pod.Namespace+"/"+pod.Name+"/"+container, keep)
}

// podStream answers exec, attach and portforward by joining the client's
// connection with one to the node's agent.
func (s *Server) podStream(w http.ResponseWriter, r *http.Request, c *call) error {
	if r.Header.Get("Upgrade") == "" {
		return badRequest("Upgrade request required")
	}
	pod, err := s.loadPod(r, c)
	if err != nil {
		return err
	}
	if err := s.connect(w, r, c); err != nil {
		return err
	}
	path := "/" + c.info.Subresource + "/" + pod.Namespace + "/" + pod.Name
	if c.info.Subresource == "portforward" {
		path = "/portForward/" + pod.Namespace + "/" + pod.Name
	} else {
		container, err := containerOf(pod, c.query().Get("container"), true)
		if err != nil {
			return err
		}
		path += "/" + container
	}
	return s.toNode(w, r, pod, path, c.query())
}

func (s *Server) loadPod(r *http.Request, c *call) (*corev1.Pod, error) {
	old, err := c.Load(r.Context(), c.registryCall(), true)
	if err != nil {
		return nil, err
	}
	pod, ok := old.Object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a pod is a %T", old.Object)
	}
	return pod, nil
}

// containerOf returns the container that a request is about: the one that it
// names, or the only one.
func containerOf(pod *corev1.Pod, name string, annotated bool) (string, error) {
	var names, initNames []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		initNames = append(initNames, pod.Spec.InitContainers[i].Name)
	}
	if name == "" && annotated {
		name = pod.Annotations["kubectl.kubernetes.io/default-container"]
	}
	if name == "" {
		if len(names) == 1 && len(initNames) == 0 {
			return names[0], nil
		}
		if len(initNames) > 0 {
			return "", badRequest("a container name must be specified for pod %s, choose one of: %v or one of the init containers: %v", pod.Name, names, initNames)
		}
		return "", badRequest("a container name must be specified for pod %s, choose one of: %v", pod.Name, names)
	}
	if !slices.Contains(names, name) && !slices.Contains(initNames, name) {
		return "", badRequest("container %s is not valid for pod %s", name, pod.Name)
	}
	return name, nil
}

// toNode hands a request on to the agent of the pod's node.
func (s *Server) toNode(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, path string, q url.Values) error {
	if pod.Spec.NodeName == "" {
		return badRequest("pod %s does not have a host assigned", pod.Name)
	}
	if s.cfg.Nodes == nil {
		return apierrors.NewServiceUnavailable("this server has no connection to nodes")
	}
	host, err := s.nodeAddress(r, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	var failed error
	proxy := &httputil.ReverseProxy{
		Transport:     s.cfg.Nodes,
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "https", Host: host, Path: path, RawQuery: q.Encode()}
			p.Out.Host = host
			// The agent trusts the server; the client's credential is not its
			// business.
			p.Out.Header.Del("Authorization")
			dropBearer(p.Out.Header)
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Header.Del("Audit-Id")
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	proxy.ServeHTTP(w, r)
	if failed != nil && exchangeOf(w).code == 0 {
		return apierrors.NewInternalError(fmt.Errorf("reach node %q: %w", pod.Spec.NodeName, failed))
	}
	return nil
}

// dropBearer takes a token out of the protocols of a WebSocket.
func dropBearer(h http.Header) {
	const name = "Sec-Websocket-Protocol"
	var keep []string
	for _, v := range h[name] {
		for p := range strings.SplitSeq(v, ",") {
			if p = strings.TrimSpace(p); !strings.HasPrefix(p, "base64url.bearer.authorization.k8s.io.") {
				keep = append(keep, p)
			}
		}
	}
	if keep != nil {
		h[name] = []string{strings.Join(keep, ", ")}
	}
}

// nodeAddress returns where a node's agent listens.
func (s *Server) nodeAddress(r *http.Request, name string) (string, error) {
	ep := s.endpoints["/v1/nodes"]
	if ep == nil {
		return "", errNoResource
	}
	item, err := s.cfg.Store.Get(r.Context(), ep.Key("", name), storage.GetOptions{Match: storage.NotOlderThan})
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return "", apierrors.NewNotFound(ep.GR(), name)
		}
		return "", err
	}
	node := &corev1.Node{}
	if err := api.DecodeStored(item.Value, node); err != nil {
		return "", err
	}
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("node %q has no agent that can be reached", name))
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName} {
		for _, a := range node.Status.Addresses {
			if a.Type == kind && a.Address != "" {
				return net.JoinHostPort(a.Address, strconv.Itoa(int(port))), nil
			}
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no preferred addresses found; known addresses: %v", node.Status.Addresses))
}
