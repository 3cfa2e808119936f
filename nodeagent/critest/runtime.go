package critest

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version says who this is.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "memory", RuntimeVersion: "v1.0.0", RuntimeApiVersion: "v1"}, nil
}

// Status says that all is well.
func (s *Server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}

// RunPodSandbox makes a sandbox.
func (s *Server) RunPodSandbox(_ context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := req.GetConfig().GetMetadata()
	for _, b := range s.sandboxes {
		o := b.config.Metadata
		if o.Name == m.GetName() && o.Namespace == m.GetNamespace() && o.Uid == m.GetUid() && o.Attempt == m.GetAttempt() {
			return nil, status.Errorf(codes.Unknown, "failed to reserve sandbox name for %q: name is reserved", m.GetName())
		}
	}
	b := &sandbox{config: req.Config, id: s.newID("sandbox"), ready: true, createdAt: time.Now()}
	if req.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		b.ip = fmt.Sprintf("10.244.1.%d", 1+s.ids%250)
	}
	s.sandboxes[b.id] = b
	s.emit(b, b.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: b.id}, nil
}

// StopPodSandbox stops a sandbox and what is in it.
func (s *Server) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.sandboxes[req.PodSandboxId]; b != nil && b.ready {
		b.ready = false
		for _, c := range s.containers {
			if c.sandbox == b {
				c.end(137, "")
			}
		}
		s.emit(b, b.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox removes a sandbox and what is in it.
func (s *Server) RemovePodSandbox(_ context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sandboxes[req.PodSandboxId]
	if b == nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	for id, c := range s.containers {
		if c.sandbox == b {
			c.end(137, "")
			delete(s.containers, id)
		}
	}
	delete(s.sandboxes, b.id)
	s.emit(b, b.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns a sandbox.
func (s *Server) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sandboxes[req.PodSandboxId]
	if b == nil {
		return nil, notFound("sandbox", req.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: b.status()}, nil
}

func (b *sandbox) status() *runtimeapi.PodSandboxStatus {
	return &runtimeapi.PodSandboxStatus{
		Id: b.id, Metadata: b.config.Metadata, State: b.state(), CreatedAt: b.createdAt.UnixNano(),
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: b.ip},
		Labels:  b.config.Labels, Annotations: b.config.Annotations,
	}
}

func (b *sandbox) state() runtimeapi.PodSandboxState {
	if b.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// ListPodSandbox lists sandboxes.
func (s *Server) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, b := range s.sandboxes {
		if matches(b.config.Labels, req.GetFilter().GetLabelSelector()) {
			resp.Items = append(resp.Items, &runtimeapi.PodSandbox{
				Id: b.id, Metadata: b.config.Metadata, State: b.state(), CreatedAt: b.createdAt.UnixNano(),
				Labels: b.config.Labels, Annotations: b.config.Annotations,
			})
		}
	}
	return resp, nil
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// GetContainerEvents follows what happens.
func (s *Server) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	c := make(chan *runtimeapi.ContainerEventResponse, 1000)
	s.mu.Lock()
	if s.noEvents {
		s.mu.Unlock()
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents")
	}
	s.followers[c] = true
	s.mu.Unlock()
	defer s.locked(func() { delete(s.followers, c) })
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case e := <-c:
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}
}

// emit tells the followers; s.mu is held.
func (s *Server) emit(b *sandbox, id string, t runtimeapi.ContainerEventType) {
	e := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: t, CreatedAt: time.Now().UnixNano(), PodSandboxStatus: b.status(),
	}
	for c := range s.followers {
		select {
		case c <- e:
		default: // so slow a follower loses events, as it would with containerd
		}
	}
}

// ImageStatus returns an image by name or ID.
func (s *Server) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	name := req.GetImage().GetImage()
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: s.find(name)}, nil
}

func (s *Server) find(name string) *runtimeapi.Image {
	if i := s.images[name]; i != nil {
		return i
	}
	for _, i := range s.images {
		if i.Id == name {
			return i
		}
	}
	return nil
}

// ListImages lists all images.
func (s *Server) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListImagesResponse{}
	for _, i := range s.images {
		resp.Images = append(resp.Images, i)
	}
	return resp, nil
}

// PullImage pulls what AddPullable added.
func (s *Server) PullImage(_ context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	name := req.GetImage().GetImage()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.pullable[name]
	if i == nil {
		return nil, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: not found", name)
	}
	s.images[name] = i
	return &runtimeapi.PullImageResponse{ImageRef: i.Id}, nil
}

// RemoveImage removes an image.
func (s *Server) RemoveImage(_ context.Context, req *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, i := range s.images {
		if name == req.GetImage().GetImage() || i.Id == req.GetImage().GetImage() {
			delete(s.images, name)
		}
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}
