package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// createFile writes a new file, with mode 0600, whole or not at all. If
// another process is faster, it returns what that one wrote.
func createFile(path string, data []byte) ([]byte, error) {
	tmp, err := writeTemp(path, data)
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp) //nolint:errcheck // a leftover does no harm
	err = os.Link(tmp, path)
	if errors.Is(err, os.ErrExist) {
		return os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	return data, syncDir(filepath.Dir(path))
}

// replaceFile writes a file, with mode 0600, whole or not at all.
func replaceFile(path string, data []byte) error {
	tmp, err := writeTemp(path, data)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(path))
}

// writeTemp writes and syncs a file with mode 0600 beside the path.
func writeTemp(path string, data []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncDir makes a new name in the folder survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
