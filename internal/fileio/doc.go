// Package fileio is the one place that writes files which users name.
//
// An output appears whole or not at all: it is written beside its name, under a random name that is
// not in use (O_EXCL, which follows no link) and that only its owner can read, flushed to the disk,
// and renamed. A new file has the permissions that the umask leaves; one that replaces an older
// file has that file's permissions, owner and group, and if the system does not allow these, the
// older file stays. A symbolic link is replaced, not followed: its target stays as it was. Devices,
// pipes and open descriptors (/dev/stdout, /dev/fd/3, for example) are written to as they are.
//
// A [Folder] of files appears whole or not at all likewise. A [Lock] keeps two processes from writing
// to one folder.
//
// A [Ledger] knows the files of one run, by device and inode, and refuses outputs that are inputs,
// or one another. Temporary files are removed if a signal ends the program (package cleanup); a
// signal that cannot be caught leaves files named .memopt-*.tmp, which no other file refers to.
package fileio
