package cri

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/client"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// An Image is an image that the runtime has.
type Image struct {
	ID      string   // what containers are made from
	Names   []string // tags and digests
	Size    int64    // bytes
	User    string   // user that it runs as by name, if by name
	UID     *int64   // user that it runs as by number, if by number
	Pinned  bool     // never to be removed
	Digests []string
}

// Auth is what a registry wants to know of who pulls.
type Auth struct{ Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string }

// Image returns the image of a name, and an error that wraps ErrNotFound if
// the runtime does not have it.
func (r *Runtime) Image(ctx context.Context, name string) (*Image, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return nil, wrap("ask for the image", err)
	}
	if resp.Image == nil {
		return nil, fmt.Errorf("image %q: %w", name, ErrNotFound)
	}
	return image(resp.Image), nil
}

// Images returns all images.
func (r *Runtime) Images(ctx context.Context) ([]*Image, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, wrap("list images", err)
	}
	var list []*Image
	for _, i := range resp.Images {
		list = append(list, image(i))
	}
	return list, nil
}

// Pull pulls an image and returns its reference. auth may be nil.
func (r *Runtime) Pull(ctx context.Context, name string, auth *Auth) (string, error) {
	req := &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: name}}
	if auth != nil {
		req.Auth = &runtimeapi.AuthConfig{
			Username: auth.Username, Password: auth.Password, Auth: auth.Auth, ServerAddress: auth.ServerAddress,
			IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
		}
	}
	resp, err := r.images.PullImage(ctx, req)
	if err != nil {
		return "", wrap("pull the image", err)
	}
	return resp.ImageRef, nil
}

// RemoveImage removes an image with all its names.
func (r *Runtime) RemoveImage(ctx context.Context, id string) error {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	_, err := r.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	return wrap("remove the image", err)
}

func image(i *runtimeapi.Image) *Image {
	m := &Image{
		ID: i.Id, Names: append(append([]string(nil), i.RepoDigests...), i.RepoTags...), Digests: i.RepoDigests,
		Size: int64(i.Size), User: i.Username, Pinned: i.Pinned, //nolint:gosec // sizes are far below 2^63
	}
	if i.Uid != nil {
		m.UID = &i.Uid.Value
	}
	if m.UID == nil && m.User != "" {
		if n, err := strconv.ParseInt(m.User, 10, 64); err == nil {
			m.UID, m.User = &n, ""
		}
	}
	return m
}

// criNamespace is the containerd namespace that CRI uses.
const criNamespace = "k8s.io"

// Import loads the images of a docker or OCI archive, which CRI cannot, over
// containerd's own API, and returns their names. When it returns, CRI sees
// them. It returns an error that wraps ErrUnsupported if the runtime is not
// containerd.
func (r *Runtime) Import(ctx context.Context, archive io.Reader) ([]string, error) {
	v, err := r.Version(ctx)
	if err != nil {
		return nil, err
	}
	if v.Name != "containerd" {
		return nil, fmt.Errorf("import images into %s: %w", v.Name, ErrUnsupported)
	}
	c, err := client.New(r.Path(), client.WithDefaultNamespace(criNamespace))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	defer c.Close() //nolint:errcheck // a connection that was only read from
	ctx, done, err := c.WithLease(ctx)
	if err != nil {
		return nil, fmt.Errorf("import images: %w", err)
	}
	defer done(context.WithoutCancel(ctx)) //nolint:errcheck // the lease expires by itself
	imported, err := c.Import(ctx, archive)
	if err != nil {
		return nil, fmt.Errorf("import images: %w", err)
	}
	var names []string
	for _, i := range imported {
		if err := client.NewImage(c, i).Unpack(ctx, ""); err != nil {
			return nil, fmt.Errorf("unpack image %q: %w", i.Name, err)
		}
		names = append(names, i.Name)
	}
	for _, name := range names {
		if err := r.awaitImage(ctx, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// awaitImage waits until CRI has taken notice of an image.
func (r *Runtime) awaitImage(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := r.Image(ctx, name); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("image %q was imported but CRI does not see it: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}
